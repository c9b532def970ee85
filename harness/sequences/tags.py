"""A tag is the byte form of a state: bytes computed from the fingerprint of the tokens that the state stands after.

Every 8-byte word of every layer is computed differently, so that a state in another layer, or a few bytes off, does not
look right. Undefined states have a tag too: memory without a defined state must not change either.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from harness.oracles.states.device import Device
from harness.sequences.byte_layout import CONV_ITEM, DIM, LAYERS, TEMPORAL_BYTES, TOKEN_BYTES

Words = NDArray[np.uint64]

_FACTOR = np.uint64(0xD6E8FEB86659FD93)
_SHIFT = np.uint64(32)
_TEMPORAL_WORDS = TEMPORAL_BYTES // 8


def _salts(window: int) -> Words:
    """`[layer, 1, word]`: tokens of a window share their salts, words of a temporal state do not."""
    salts = np.zeros((LAYERS, 1, window + _TEMPORAL_WORDS), dtype=np.uint64)
    for layer in range(LAYERS):
        salts[layer, 0, :window] = layer * 8 + 1
        salts[layer, 0, window:] = range(layer * 8 + 2, layer * 8 + 2 + _TEMPORAL_WORDS)
    return salts * np.uint64(0x9E3779B97F4A7C15)


class Pages:
    """The pages of a byte layout as arrays of bytes `[num_blocks, page]`, one for each layer, over one buffer."""

    def __init__(self, pages: Sequence[NDArray[np.uint8]], window: int, is_ds: bool) -> None:
        self._pages, self._window, self._is_ds = pages, window, is_ds
        self._salts = _salts(window)

    def write(self, device: Device, blocks: Sequence[int]) -> None:
        """Give blocks the tags of what the symbolic device holds in them."""
        if not blocks:
            return
        temporal, conv = device.temporal, device.conv
        self._write(blocks, np.array([conv[b] + [temporal[b]] * _TEMPORAL_WORDS for b in blocks], dtype=np.uint64))

    def forget(self, blocks: Sequence[int] | None = None) -> None:
        """Mark blocks as undefined; None: all blocks."""
        chosen = range(len(self._pages[0])) if blocks is None else blocks
        self._write(chosen, np.zeros((len(chosen), self._window + _TEMPORAL_WORDS), dtype=np.uint64))

    def copy(self, copies: Sequence[tuple[int, int]]) -> None:
        """Copy all layers of blocks, padding excluded; every source is read before a destination is written."""
        used = self._window * TOKEN_BYTES + TEMPORAL_BYTES
        sources, destinations = ([pair[side] for pair in copies] for side in (0, 1))
        for page in self._pages:
            page[destinations, :used] = page[sources, :used]

    def _write(self, blocks: Sequence[int], fingerprints: Words) -> None:
        """`fingerprints[i]` are those of the words of block i: a word for each token, then the temporal state's."""
        mixed = (fingerprints ^ self._salts) * _FACTOR
        mixed ^= mixed >> _SHIFT
        mixed *= _FACTOR
        tags = mixed.view(np.uint8)
        count, end = len(blocks), self._window * TOKEN_BYTES
        chosen = np.array(blocks, dtype=np.intp)
        for page, layer in zip(self._pages, tags, strict=True):
            if self._is_ds:
                rows = layer[:, :end].reshape(count, self._window, DIM, CONV_ITEM)
                layer[:, :end] = rows.transpose(0, 2, 1, 3).reshape(count, end)
            page[chosen, : end + TEMPORAL_BYTES] = layer

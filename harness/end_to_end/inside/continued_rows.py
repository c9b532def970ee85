"""Continued rows are the rows of a forward pass for which a layer reads a state, as its metadata say it.

Each kind of layers has metadata of its own (vllm/v1/attention/backends/mamba_attn.py and gdn_attn.py, 0.25 to 0.33). A
row that decodes reads a state always, also if nothing of its request is computed; one that prefills reads one only
where the metadata say so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple


class Read(NamedTuple):
    """A row of a layer that continues from a state: in `block`, behind `offset` drafts."""

    layer: str
    group: int
    row: int
    block: int
    window_block: int
    offset: int


def continued_rows(layer: str, group: int, metadata: Any) -> Iterator[Read]:
    """The rows of a layer that continue from a state. Raises AttributeError if the metadata are of neither kind."""
    rows = _of_gated_delta_net if hasattr(metadata, "spec_sequence_masks") else _of_mamba2
    return rows(layer, group, metadata)


def _of_mamba2(layer: str, group: int, metadata: Any) -> Iterator[Read]:
    """Decodes come first in a batch."""
    decodes, prefills = int(metadata.num_decodes), int(metadata.num_prefills)
    if decodes:
        slots, counts = metadata.state_indices_tensor_d, metadata.num_accepted_tokens
        slots = slots if slots.dim() == 2 else slots[:, None]
        for row in range(decodes):
            yield _behind_drafts(layer, group, row, slots[row], None if counts is None else counts[row])
    for row in range(prefills):
        if bool(metadata.has_initial_states_p[row]):
            block = int(metadata.state_indices_tensor_p[row])
            yield Read(layer, group, decodes + row, block, block, 0)


def _of_gated_delta_net(layer: str, group: int, metadata: Any) -> Iterator[Read]:
    """Rows with drafts are where the mask says; the others keep their order, decodes in front."""
    decodes, others = int(metadata.num_decodes), int(metadata.num_decodes) + int(metadata.num_prefills)
    masks = metadata.spec_sequence_masks
    marked = [False] * others if masks is None else masks.tolist()
    if masks is not None:
        slots, counts = metadata.spec_state_indices_tensor, metadata.num_accepted_tokens
        rows = [row for row, speculative in enumerate(marked) if speculative]
        for place, row in enumerate(rows[: int(metadata.num_spec_decodes)]):
            yield _behind_drafts(layer, group, row, slots[place], counts[place])
    rows = [row for row, speculative in enumerate(marked) if not speculative]
    for place, row in enumerate(rows[:others]):
        if place < decodes or bool(metadata.has_initial_state[place]):
            block = int(metadata.non_spec_state_indices_tensor[place])
            yield Read(layer, group, row, block, block, 0)


def _behind_drafts(layer: str, group: int, row: int, slots: Any, count: Any) -> Read:
    offset = 0 if count is None else max(int(count) - 1, 0)
    return Read(layer, group, row, int(slots[offset]), int(slots[0]), offset)

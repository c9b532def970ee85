"""A layout is everything static about a case: groups, layers, states, where they lie in memory, table shapes.

Memory is described explicitly. A state names its buffer, the byte offset of its block 0 and the bytes from
one block to the next. These three numbers describe padded pages, pages shared by several groups, layers outermost or
blocks outermost (docs/domain.md, section 6), and layouts that no release produces.
Groups may alias the same bytes: a block id belongs to one group at a time (`Contents.owners`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from harness.case.problem import InvalidCase

ConvLayout = Literal["SD", "DS"]
ItemSize = Literal[1, 2, 4, 8]

# Bounds of what a file may ask for. They keep decoding and building a case from allocating without limit, and
# leave room for the largest real deployment (docs/domain.md, section 6: no product passes 2**37 bytes).
MAX_OFFSET = 2**40
Count = Annotated[int, Meta(ge=1, le=2**20)]
Bytes = Annotated[int, Meta(ge=0, le=MAX_OFFSET)]
Stride = Annotated[int, Meta(ge=1, le=2**38)]


class ConvState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="conv"):
    """A sliding window over the last tokens of one layer.

    One block holds `window` tokens of `dim` elements: `(window, dim)` in SD layout, `(dim, window)` in DS.
    `row_stride` is the number of bytes between two of the `dim` rows; DS only, None in SD.
    """

    item_size: ItemSize
    window: Annotated[int, Meta(ge=1, le=4096)]
    dim: Annotated[int, Meta(ge=1, le=2**20)]
    buffer: Annotated[int, Meta(ge=0, le=255)]
    offset: Bytes
    block_stride: Stride
    row_stride: Stride | None = None

    @property
    def natural_bytes(self) -> int:
        """Bytes of one block's elements, without any gaps between DS rows."""
        return self.window * self.dim * self.item_size


class TemporalState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="temporal"):
    """A recurrent matrix of one layer: one block holds `shape` elements, contiguous."""

    item_size: ItemSize
    shape: Annotated[tuple[Annotated[int, Meta(ge=1, le=2**24)], ...], Meta(min_length=1, max_length=4)]
    buffer: Annotated[int, Meta(ge=0, le=255)]
    offset: Bytes
    block_stride: Stride

    @property
    def natural_bytes(self) -> int:
        """Bytes of one block's elements: what a temporal copy moves, regardless of the page stride."""
        return math.prod(self.shape) * self.item_size


State = ConvState | TemporalState


def state_extent(state: State) -> int:
    """Bytes from the first to one past the last byte of one block of `state`, DS row gaps included."""
    if isinstance(state, ConvState) and state.row_stride is not None:
        return (state.dim - 1) * state.row_stride + state.window * state.item_size
    return state.natural_bytes


class Layer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The states of one recurrent layer, in the order in which the model lists them.

    `extra` cache tensors come after them: the layer has them, and they must not be copied. They hold poison.
    """

    states: Annotated[tuple[State, ...], Meta(min_length=1, max_length=8)]
    extra: Annotated[tuple[State, ...], Meta(max_length=4)] = ()


class Group(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A KV-cache group: layers that share one block table."""

    layers: Annotated[tuple[Layer, ...], Meta(min_length=1, max_length=128)]


class Buffer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A raw allocation that states are views of: `size` bytes, `misalignment` bytes past a 256-byte boundary."""

    size: Annotated[int, Meta(ge=1, le=MAX_OFFSET)]
    misalignment: Annotated[int, Meta(ge=0, le=255)] = 0


class Layout(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything static about a case.

    `block_size` is in tokens; `num_spec` is the number of speculative tokens the model may draft. Block ids run
    from 0 (the null block) to `num_blocks - 1`. Every group has an int32 table of `table_rows` x `table_columns`
    cells; the row stride is `table_columns` elements for all of them. Per-request arrays have `table_rows` entries.

    Raises InvalidCase if a state leaves its buffer, is not aligned to its element size, or overlaps itself.
    """

    conv_layout: ConvLayout
    block_size: Annotated[int, Meta(ge=1, le=2**24)]
    num_spec: Annotated[int, Meta(ge=0, le=1024)]
    num_blocks: Annotated[int, Meta(ge=2, le=2**24)]
    buffers: Annotated[tuple[Buffer, ...], Meta(min_length=1, max_length=256)]
    groups: Annotated[tuple[Group, ...], Meta(min_length=1, max_length=64)]
    table_rows: Count
    table_columns: Count

    def __post_init__(self) -> None:
        for where, state in self.states():
            _check_state(self, where, state)
        for (g, l), state in self.extras():  # noqa: E741 - l is the layer throughout
            _check_state(self, (g, l, len(self.groups[g].layers[l].states)), state)

    def states(self) -> Iterator[tuple[tuple[int, int, int], State]]:
        """Yield `((group, layer, state), state)` in the flattened order of the kernels' `state_idx`."""
        for g, group in enumerate(self.groups):
            for l, layer in enumerate(group.layers):  # noqa: E741 - l is the layer throughout
                for s, state in enumerate(layer.states):
                    yield (g, l, s), state

    def extras(self) -> Iterator[tuple[tuple[int, int], State]]:
        """Yield `((group, layer), tensor)` for each cache tensor that is never copied."""
        for g, group in enumerate(self.groups):
            for l, layer in enumerate(group.layers):  # noqa: E741 - l is the layer throughout
                for state in layer.extra:
                    yield (g, l), state

    @property
    def num_states(self) -> int:
        return sum(len(layer.states) for group in self.groups for layer in group.layers)


def _check_state(layout: Layout, where: tuple[int, int, int], state: State) -> None:
    name = "group {} layer {} state {}".format(*where)
    if state.buffer >= len(layout.buffers):
        raise InvalidCase(f"{name}: buffer {state.buffer} does not exist")
    buffer = layout.buffers[state.buffer]
    item = state.item_size
    if (buffer.misalignment + state.offset) % item or state.block_stride % item:
        raise InvalidCase(f"{name}: offset or block stride is not a multiple of the element size {item}")
    if isinstance(state, ConvState):
        if (state.row_stride is not None) != (layout.conv_layout == "DS"):
            raise InvalidCase(f"{name}: row_stride is for DS conv states, and each of them needs one")
        if state.row_stride is not None and (state.row_stride % item or state.row_stride < state.window * item):
            raise InvalidCase(f"{name}: row stride {state.row_stride} is unaligned or shorter than a row")
    extent = state_extent(state)
    if extent > state.block_stride:
        raise InvalidCase(f"{name}: a block of {extent} bytes does not fit its stride {state.block_stride}")
    end = state.offset + (layout.num_blocks - 1) * state.block_stride + extent
    if end > buffer.size:
        raise InvalidCase(f"{name}: its last block ends at byte {end} of a buffer of {buffer.size} bytes")

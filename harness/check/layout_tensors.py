"""Layout tensors are what a runner owns: the states of its layers and the block tables, as tensors over an arena."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.case import ConvState, State, state_extent
from harness.kernels.executors.base import Arena
from harness.kernels.targets.base import LayoutTensors
from harness.memory import LayoutPlan

if TYPE_CHECKING:
    import torch


def layout_tensors(arena: Arena, base: LayoutPlan) -> LayoutTensors:
    """The tensors that a runner owns, over an arena."""
    import torch

    layout = base.layout
    kinds = {1: torch.int8, 2: torch.bfloat16, 4: torch.float32, 8: torch.float64}
    states: list[list[list[torch.Tensor]]] = [[[] for _ in group.layers] for group in layout.groups]

    def view(state: State, start: int) -> torch.Tensor:
        item = state.item_size
        stride = state.block_stride // item
        if not isinstance(state, ConvState):
            shape: tuple[int, ...] = (layout.num_blocks, *state.shape)
            strides = [stride, *_contiguous(state.shape)]
        elif state.row_stride is None:
            shape, strides = (layout.num_blocks, state.window, state.dim), [stride, state.dim, 1]
        else:
            shape, strides = (layout.num_blocks, state.dim, state.window), [stride, state.row_stride // item, 1]
        size = (layout.num_blocks - 1) * state.block_stride + state_extent(state)
        return arena.tensor(start, size, kinds[item], shape, strides)

    for place in base.states:
        states[place.group][place.layer].append(view(place.state, place.start))
    for (group, layer), extra in layout.extras():
        states[group][layer].append(view(extra, base.buffers[extra.buffer] + extra.offset))
    shape, strides = (layout.table_rows, layout.table_columns), [layout.table_columns, 1]
    tables = [arena.tensor(start, base.table_bytes, torch.int32, shape, strides) for start in base.tables]
    return LayoutTensors(states, tables)


def _contiguous(shape: tuple[int, ...]) -> list[int]:
    strides = [1]
    for length in reversed(shape[1:]):
        strides.insert(0, strides[0] * length)
    return strides

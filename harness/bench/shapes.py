"""Shapes are the Mamba states of published models, in the memory layout used for serving.

Each names its source: the model's public configuration, at a tensor-parallel degree, with a usual number of draft
tokens. Sizes of pages and blocks are those that vLLM 0.33.0 computes for it, on 141 GB of device memory.
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from harness.case import Buffer, ConvLayout, ConvState, Group, Layer, Layout, TemporalState
from harness.case.layout import State


class StateShape(msgspec.Struct, frozen=True):
    """One state of a layer, in elements of `item` bytes: a conv window `(tokens, channels)`, or any temporal state."""

    kind: Literal["conv", "temporal"]
    shape: tuple[int, ...]
    item: int

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.item


LayerShape = tuple[StateShape, ...]


class ModelShape(msgspec.Struct, frozen=True, kw_only=True):
    """The recurrent layers of one model. `groups[g]` lists the layers that share a block table.

    `page` is the bytes of one block of one layer, including padding; `block_size` is in tokens, `columns` the width of
    a block table, `rows` how many requests fit at a time. If `blocks_outermost`, a block's layers are adjacent.
    """

    name: str
    source: str
    groups: tuple[tuple[LayerShape, ...], ...]
    page: int
    block_size: int
    num_spec: int
    columns: int
    rows: int
    blocks_outermost: bool = False

    def layout(self, conv_layout: ConvLayout, num_blocks: int, rows: int, *, aligned: bool = True) -> Layout:
        """The layout of a pool of `num_blocks` blocks, for tables of `rows` rows.

        Not `aligned`: states begin 4 bytes past a boundary, and blocks are 4 bytes further apart, so that two blocks
        hardly ever agree in their low address bits.
        """
        shift = 0 if aligned else 4
        layers = max(map(len, self.groups))
        page = self.page + shift
        block_stride = page * layers if self.blocks_outermost else page
        layer_stride = page if self.blocks_outermost else page * num_blocks
        groups = tuple(
            Group(
                layers=tuple(_layer(layer, conv_layout, number * layer_stride, block_stride) for number, layer in group)
            )
            for group in (enumerate(group) for group in self.groups)
        )
        return Layout(
            conv_layout=conv_layout,
            block_size=self.block_size,
            num_spec=self.num_spec,
            num_blocks=num_blocks,
            buffers=(Buffer(size=page * layers * num_blocks + 256, misalignment=shift),),
            groups=groups,
            table_rows=rows,
            table_columns=self.columns,
        )

    def moved_bytes(self, bias: int) -> int:
        """Bytes that are written to move one request with a bias of `bias` tokens."""
        return sum(
            state.bytes
            if state.kind == "temporal"
            else max(state.shape[0] - bias, 0) * math.prod(state.shape[1:]) * state.item
            for group in self.groups
            for layer in group
            for state in layer
        )

    @property
    def block_bytes(self) -> int:
        """Bytes of one block id: a page of each layer of the largest group."""
        return self.page * max(map(len, self.groups))


def _layer(layer: LayerShape, conv_layout: ConvLayout, offset: int, block_stride: int) -> Layer:
    states: list[State] = []
    for state in layer:
        if state.kind == "conv":
            window, dim = state.shape
            row_stride = window * state.item if conv_layout == "DS" else None
            states.append(
                ConvState(
                    item_size=state.item,  # type: ignore[arg-type]
                    window=window,
                    dim=dim,
                    buffer=0,
                    offset=offset,
                    block_stride=block_stride,
                    row_stride=row_stride,
                )
            )
        else:
            states.append(
                TemporalState(
                    item_size=state.item,  # type: ignore[arg-type]
                    shape=state.shape,
                    buffer=0,
                    offset=offset,
                    block_stride=block_stride,
                )
            )
        offset += state.bytes
    return Layer(states=tuple(states))


def _conv(tokens: int, channels: int, item: int = 2) -> StateShape:
    return StateShape("conv", (tokens, channels), item)


def _temporal(*shape: int, item: int = 4) -> StateShape:
    return StateShape("temporal", shape, item)


def _groups(layer: LayerShape, *layers: int) -> tuple[tuple[LayerShape, ...], ...]:
    return tuple((layer,) * number for number in layers)


_FLASH_NEXT = (_conv(6, 2560), _temporal(12, 128, 128))

SHAPES = (
    ModelShape(
        name="qwen3.5-27b",
        source="Qwen3.5-27B (gated delta net), one GPU, 3 drafts; state sizes from its public configuration",
        groups=_groups((_conv(6, 10240), _temporal(48, 128, 128)), 16, 16, 16),
        page=3276800,
        block_size=800,
        num_spec=3,
        columns=331,
        rows=64,
    ),
    ModelShape(
        name="nemotron-3-super",
        source="Nemotron-3-Super-120B (Mamba2), 4 GPUs, 5 drafts; NVIDIA-NeMo/Megatron-Bridge nemotron_h_provider.py",
        groups=_groups((_conv(8, 2560), _temporal(32, 64, 128)), 8, 8, 8, 8, 8),
        page=1089536,
        block_size=2128,
        num_spec=5,
        columns=498,
        rows=256,
    ),
    ModelShape(
        name="lfm2-1.2b",
        source="LFM2-1.2B (short convolutions alone), one GPU, 3 drafts; its public configuration",
        groups=_groups((_conv(5, 2048),), 5, 5),
        page=32768,
        block_size=16,
        num_spec=3,
        columns=8003,
        rows=1024,
    ),
    ModelShape(
        name="kimi-k3",
        source="Kimi-K3 (KDA), 8 GPUs, 7 drafts; its public configuration as in inference-sim and llama.cpp",
        groups=_groups((_conv(10, 4608), _temporal(12, 128, 128)), 23, 23, 23),
        page=884736,
        block_size=768,
        num_spec=7,
        columns=1373,
        rows=64,
    ),
    ModelShape(
        name="qwen3.8-flash-next",
        source="Qwen3.8-Flash-Next (gated delta net and one short convolution), 4 GPUs, 3 drafts; transformers 5.24.0 "
        "qwen4_exp",
        groups=(*_groups(_FLASH_NEXT, 12, 12, 12), ((_conv(12, 10240),),)),
        page=851968,
        block_size=832,
        num_spec=3,
        columns=319,
        rows=96,
        blocks_outermost=True,
    ),
    ModelShape(
        name="qwen3.6-35b-dflash",
        source="Qwen3.6-35B-A3B with a DFlash drafter, one GPU, 7 drafts: 30 groups of one layer (vLLM PR #51742)",
        groups=_groups((_conv(10, 8192), _temporal(32, 128, 128)), *(1,) * 30),
        page=2260992,
        block_size=1104,
        num_spec=7,
        columns=245,
        rows=96,
    ),
    # Chosen at random among the other published models; nothing was tuned on them.
    ModelShape(
        name="qwen3.5-9b",
        source="Qwen3.5-9B (gated delta net), one GPU, 1 draft; its public configuration",
        groups=_groups((_conv(4, 8192), _temporal(32, 128, 128)), 8, 8, 8),
        page=2162688,
        block_size=528,
        num_spec=1,
        columns=250,
        rows=128,
    ),
    ModelShape(
        name="nemotron-nano-9b",
        source="Nemotron-Nano-9B-v2 (Mamba2), one GPU, no drafts; NVIDIA-NeMo/Megatron-Bridge nemotron_h_provider.py",
        groups=_groups((_conv(3, 12288), _temporal(128, 80, 128)), 6, 6, 6, 6, 3),
        page=5373952,
        block_size=1312,
        num_spec=0,
        columns=100,
        rows=64,
    ),
    ModelShape(
        name="granite-4-tiny",
        source="Granite-4.0-H-Tiny (Mamba2, states of 2 bytes), one GPU, no drafts; its published model file",
        groups=_groups((_conv(3, 3328), _temporal(48, 64, 128, item=2)), 9, 9, 9, 9),
        page=819200,
        block_size=400,
        num_spec=0,
        columns=329,
        rows=256,
    ),
    # Named by somebody else, after the kernels were written; nothing was tuned on them either.
    ModelShape(
        name="olmo-hybrid-7b",
        source="Olmo-Hybrid-7B (gated delta net, states of 2 bytes), one GPU, no drafts; its public configuration",
        groups=_groups((_conv(3, 11520), _temporal(30, 192, 96, item=2)), 8, 8, 8),
        page=1228800,
        block_size=80,
        num_spec=0,
        columns=820,
        rows=110,
    ),
    ModelShape(
        name="jamba-v0.1",
        source="Jamba-v0.1 (Mamba1, states of 2 bytes), 2 GPUs, no drafts; its public configuration",
        groups=_groups((_conv(3, 4096), _temporal(4096, 16, item=2)), 7, 7, 7, 7),
        page=163840,
        block_size=80,
        num_spec=0,
        columns=3277,
        rows=1024,
    ),
    ModelShape(
        name="qwen3.5-397b",
        source="Qwen3.5-397B-A17B (gated delta net), 8 GPUs, 2 drafts; its public configuration",
        groups=_groups((_conv(5, 1536), _temporal(8, 128, 128)), 15, 15, 15),
        page=540672,
        block_size=528,
        num_spec=2,
        columns=499,
        rows=256,
    ),
)
"""The first six were chosen to differ, three at random, the last three by somebody else."""


def shape_of_name(name: str) -> ModelShape:
    """The shape with a name. Raises KeyError."""
    return {shape.name: shape for shape in SHAPES}[name]

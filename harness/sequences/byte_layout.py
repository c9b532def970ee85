"""The byte layout of a sequence: what a small model with the sequence's groups and block sizes keeps in memory.

All groups share one pool of blocks, so they share one buffer, as in production since 0.29 (docs/domain.md, section 6).
Every layer has a conv and a temporal state. What a sequence does not specify is derived from its configuration: SD or
DS windows, layers or blocks outermost.
"""

from __future__ import annotations

from typing import Literal

from harness.case import Buffer, ConvState, Group, Layer, Layout, TemporalState
from harness.case.sequence import SequenceConfig

LAYERS = 2
"""Layers of every group."""
DIM = 4
"""Elements of a token in a conv window."""
CONV_ITEM: Literal[2] = 2
TOKEN_BYTES = DIM * CONV_ITEM
TEMPORAL_SHAPE = (2, 4)
TEMPORAL_BYTES = 32
PAGE_UNIT = 64
"""Pages are padded to a multiple of this many bytes, and have at least one byte of padding."""


def window_of(config: SequenceConfig) -> int:
    """Tokens of a conv window, including those for drafts."""
    return config.kernel - 1 + config.num_spec


def page_bytes(config: SequenceConfig) -> int:
    """Bytes of one block of one layer."""
    used = window_of(config) * TOKEN_BYTES + TEMPORAL_BYTES
    return (used // PAGE_UNIT + 1) * PAGE_UNIT


def blocks_outermost(config: SequenceConfig) -> bool:
    """Whether the layers of a block lie together, or the blocks of a layer."""
    return config.num_blocks % 2 == 1


def byte_layout(config: SequenceConfig, *, dim_first: bool = True) -> Layout:
    """The layout; windows are DS in half of the configurations, unless `dim_first` is False."""
    window, page = window_of(config), page_bytes(config)
    is_ds = dim_first and config.length_limit % 2 == 1
    stride, step = (LAYERS * page, page) if blocks_outermost(config) else (page, page * config.num_blocks)

    def layer(number: int) -> Layer:
        start = number * step
        conv = ConvState(
            item_size=CONV_ITEM,
            window=window,
            dim=DIM,
            buffer=0,
            offset=start,
            block_stride=stride,
            row_stride=window * CONV_ITEM if is_ds else None,
        )
        offset = start + window * TOKEN_BYTES
        temporal = TemporalState(item_size=4, shape=TEMPORAL_SHAPE, buffer=0, offset=offset, block_stride=stride)
        return Layer(states=(conv, temporal))

    group = Group(layers=tuple(layer(number) for number in range(LAYERS)))
    columns = -(-(config.length_limit + config.num_spec + 1) // config.block_size) + config.num_spec + 4
    return Layout(
        conv_layout="DS" if is_ds else "SD",
        block_size=config.block_size,
        num_spec=config.num_spec,
        num_blocks=config.num_blocks,
        buffers=(Buffer(size=LAYERS * page * config.num_blocks),),
        groups=(group,) * config.mamba_groups,
        table_rows=config.requests,
        table_columns=columns,
    )

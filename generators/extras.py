"""Extra cache tensors come after the states that a layer copies: the layer needs them, and copies ignore them.

Each has its own buffer, so that a copy of one shows as a write where no state lies.
"""

from __future__ import annotations

import msgspec

from harness.case import Buffer, Group, Layer, Layout, TemporalState
from harness.generators.draw import Draw

SHARE = 0.15
"""The share of layouts whose layers have extra tensors."""


def with_extras(draw: Draw, layout: Layout) -> Layout:
    """The layout, with one or two extra tensors in some of its layers."""
    buffers = list(layout.buffers)
    groups = []
    for group in layout.groups:
        layers = []
        for layer in group.layers:
            extra = tuple(
                [_extra(draw, layout, layer, buffers) for _ in range(draw.weighted(((0, 2), (1, 3), (2, 1))))]
            )
            layers.append(Layer(states=layer.states, extra=extra))
        groups.append(Group(layers=tuple(layers)))
    return msgspec.structs.replace(layout, groups=tuple(groups), buffers=tuple(buffers))


def _extra(draw: Draw, layout: Layout, layer: Layer, buffers: list[Buffer]) -> TemporalState:
    item = layer.states[-1].item_size
    length = draw.choice((8, 4, 24))
    buffers.append(Buffer(size=layout.num_blocks * length * item))
    return TemporalState(item_size=item, shape=(length,), buffer=len(buffers) - 1, offset=0, block_stride=length * item)

"""Extra cache tensors stand behind the states that a layer copies: the layer needs them, and copies leave them alone.

Each gets a buffer of its own, so that a copy of one shows as a write where no state lies.
"""

from __future__ import annotations

import msgspec

from harness.case import Buffer, Group, Layer, Layout, TemporalState
from harness.generators.draw import Draw

SHARE = 0.15
"""How many layouts have layers with extra tensors."""


def with_extras(draw: Draw, layout: Layout) -> Layout:
    """The layout, some of its layers with one or two extra tensors."""
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

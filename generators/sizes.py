"""A template is the shape of one layer's states before they have a place in memory.

Sizes lie around the values where a copy kernel changes its path: 8-byte words with heads and tails, loop steps of
1024 words, 1024 rows of a DS window, sixteen tiles of a temporal state. Reachable sizes keep the ratios of real
models, scaled down (docs/domain.md, section 6): there every address and size is a multiple of 8, except for DS rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.case import Domain
from harness.case.layout import ItemSize
from harness.generators.draw import Draw

LOOP_BYTES = 8192
"""Bytes of one step of a kernel's copy loop: 1024 words of 8 bytes."""
LOOP_ROWS = 1024
"""Rows of a DS window in one step of a kernel's loop."""
TILES = 16
"""Programs that share one temporal copy."""


@dataclass(frozen=True)
class ConvTemplate:
    item_size: ItemSize
    window: int
    dim: int
    row_bytes: int
    """Bytes between two of the `dim` rows in DS layout (unused in SD)."""

    def extent(self, conv_layout: str) -> int:
        """Bytes from the first to one past the last byte of one block."""
        if conv_layout == "DS":
            return (self.dim - 1) * self.row_bytes + self.window * self.item_size
        return self.window * self.dim * self.item_size


@dataclass(frozen=True)
class TemporalTemplate:
    item_size: ItemSize
    shape: tuple[int, ...]

    def extent(self, conv_layout: str) -> int:
        """Bytes of one block: the layout of conv states does not matter."""
        return math.prod(self.shape) * self.item_size


StateTemplate = ConvTemplate | TemporalTemplate
LayerTemplate = tuple[StateTemplate, ...]

_WINDOWS = ((4, 4), (3, 4), (5, 3), (6, 3), (8, 3), (10, 3), (2, 2), (9, 1), (7, 1), (1, 2))
_REACHABLE_KINDS = ((("conv", "temporal"), 6), (("conv",), 2), (("temporal",), 1))
_TOTAL_KINDS = (
    (("conv", "temporal"), 8),
    (("conv",), 4),
    (("temporal",), 4),
    (("temporal", "conv"), 2),
    (("conv", "conv"), 2),
    (("conv", "conv", "temporal"), 1),
)


def draw_reachable_layer(draw: Draw, num_spec: int, roomy: bool) -> LayerTemplate:
    """A layer as in real models. `roomy` allows the rare large sizes."""
    kinds = draw.weighted(_REACHABLE_KINDS)
    if "conv" not in kinds:  # linear attention: no window
        return (_reachable_temporal(draw, draw.choice((2, 4)), roomy),)
    kernel = draw.weighted(((4, 5), (3, 1), (10, 1))) if "temporal" not in kinds else 4
    window = kernel - 1 + num_spec
    item: ItemSize = draw.weighted(((2, 8), (4, 1)))
    dims = (8, 24, 64, 72) if not roomy else (8, 24, 64, 72, 128, 320, 1032, 1024, 2056)
    dim = draw.choice(dims)
    conv = ConvTemplate(item, window, dim, window * item)
    if "temporal" not in kinds:
        return (conv,)
    return conv, _reachable_temporal(draw, 4 if item == 4 else draw.choice((4, 2)), roomy)


def _reachable_temporal(draw: Draw, item: ItemSize, roomy: bool) -> TemporalTemplate:
    shapes = ((2, 4, 8), (3, 4, 16), (8, 4), (4, 8, 8), (72, 4))
    large = ((8, 16, 16), (4, 16, 33), (1024, 4), (16, 32, 32))
    return TemporalTemplate(item, draw.choice(large if roomy and draw.boolean(0.4) else shapes))


def draw_tiled_layer(draw: Draw, domain: Domain, conv_layout: str, num_spec: int) -> LayerTemplate:
    """A layer whose temporal state is so large that most or all programs of its copy have something to do.

    Most states fill all of them, with one or more steps for each; some leave the last ones idle or with a part of a
    step, as a number of bytes that is no multiple of a step for each does.
    """
    step = TILES * LOOP_BYTES
    item: ItemSize = draw.choice((4, 2))
    size = draw.weighted(((step, 8), (2 * step, 1), (step - LOOP_BYTES + 256, 2), (step + 3 * LOOP_BYTES, 1)))
    if domain == "total":
        size += draw.choice((0, 0, -1, 1, 12)) * item
    temporal = TemporalTemplate(item, (size // (item * 128), 128) if size % (item * 128) == 0 else (size // item,))
    if draw.boolean(0.4):
        return (temporal,)
    if domain == "total":
        return _total_conv(draw, conv_layout, False), temporal
    window = 3 + num_spec
    dim = draw.choice((8, 72, 320, 1032))
    return ConvTemplate(2, window, dim, window * 2), temporal


def draw_total_layer(draw: Draw, conv_layout: str, roomy: bool) -> LayerTemplate:
    """Any layer the kernels are specified for. `roomy` allows the sizes around the kernels' loop steps."""
    return tuple(
        _total_conv(draw, conv_layout, roomy) if kind == "conv" else _total_temporal(draw, roomy)
        for kind in draw.weighted(_TOTAL_KINDS)
    )


def _item(draw: Draw) -> ItemSize:
    return draw.weighted(((2, 4), (4, 3), (1, 2), (8, 1)))


def _total_conv(draw: Draw, conv_layout: str, roomy: bool) -> ConvTemplate:
    item = _item(draw)
    if roomy and draw.boolean(0.4):
        window = draw.weighted(((1, 3), (2, 3), (3, 1), (4, 1)))
        if conv_layout == "DS":
            dim = LOOP_ROWS * draw.weighted(((1, 6), (2, 1))) + draw.choice((0, -1, 1, 8))
        else:  # a run of about one loop step, after a bias that leaves `kept` tokens
            kept = draw.integer(1, window)
            dim = max(1, _around(draw, LOOP_BYTES) // (kept * item))
    else:
        window = draw.weighted(_WINDOWS if not roomy else (*_WINDOWS, (17, 3), (18, 3)))
        dim = draw.boundary(1, 40, (3, 7, 8, 9, 15, 16, 24))
    row = window * item
    if conv_layout == "DS" and draw.boolean(0.5):
        row += item * draw.weighted(((1, 4), (2, 1), (3, 2), (8, 1)))
    return ConvTemplate(item, window, dim, row)


def _total_temporal(draw: Draw, roomy: bool) -> TemporalTemplate:
    item = _item(draw)
    if roomy and draw.boolean(0.4):
        steps = draw.weighted(((1, 12), (2, 3), (3, 2), (TILES, 1)))
        elements = max(1, _around(draw, LOOP_BYTES * steps) // item)
    else:
        elements = draw.boundary(1, 200, (7, 8, 9, 15, 16, 17, 63, 64, 65))
    return TemporalTemplate(item, _factored(draw, elements))


def _around(draw: Draw, size: int) -> int:
    return size + draw.choice((0, -1, 1, -8, 8, -7, 7, 12))


def _factored(draw: Draw, elements: int) -> tuple[int, ...]:
    """Shape of 1 to 4 dimensions with exactly `elements` elements."""
    shape: list[int] = []
    for _ in range(draw.weighted(((2, 3), (0, 2), (1, 3), (3, 1)))):
        divisors: Sequence[int] = [d for d in (2, 3, 4, 5, 7, 8, 16) if elements % d == 0] or (1,)
        divisor = draw.choice(divisors)
        shape.append(divisor)
        elements //= divisor
    return (*shape, elements)

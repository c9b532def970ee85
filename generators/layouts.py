"""A layout plan is a drawn layout, with the number of requests that its blocks are enough for.

A layout is drawn in three passes: what the layers are (templates), how their pages lie in buffers (placement), and
how many blocks and table cells there are. Placement follows docs/domain.md, section 6: one buffer for all groups with
the layers or the blocks outermost; one buffer per layer position, shared by that layer of every group; and, in the
total domain only, one buffer per state. In every placement the bytes of block b of one group overlap only those of
block b of other groups, so that the owner of a block id keeps groups apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.case import Buffer, ConvLayout, ConvState, Domain, Group, Layer, Layout, State, TemporalState
from harness.generators.draw import Draw
from harness.generators.extents import Extent, Scale, draw_extent
from harness.generators.extras import SHARE as EXTRAS_SHARE
from harness.generators.extras import with_extras
from harness.generators.sizes import (
    ConvTemplate,
    LayerTemplate,
    StateTemplate,
    draw_reachable_layer,
    draw_tiled_layer,
    draw_total_layer,
)
from harness.generators.spread import spread

SPREAD_SHARE = 0.25
"""The share of layouts whose blocks are spread over gigabytes, where that is possible."""

PADDINGS = (0.0, 0.0025, 0.087, 0.43, 3.0)
"""Padding of real pages, as a share of their natural bytes."""


USUAL_BATCH = 64
"""Maximum number of requests in most cases of a layout that has room for more."""

FULL_BATCHES = 0.25
"""The share of cases whose batch may be as large as such a layout allows: a case of hundreds of requests costs as much
as ten others."""


@dataclass(frozen=True)
class LayoutChoice:
    """A layout, and what else its cases need to know. `requests`: how many fit its blocks."""

    layout: Layout
    requests: int

    def draw_most_requests(self, draw: Draw) -> int:
        """The maximum number of requests of one case."""
        most = min(self.requests, self.layout.table_rows)
        if most > USUAL_BATCH and not draw.boolean(FULL_BATCHES):
            return USUAL_BATCH
        return most


def draw_layout(draw: Draw, domain: Domain, scale: Scale) -> LayoutChoice:
    """Draw everything static about a case.

    `small` layouts suit executors that need milliseconds per program. The size of `full` ones is bounded by the cost of
    comparing every byte: mostly below 256 KiB, at times some MiB.
    """
    limits = draw_extent(draw, scale)
    conv_layout: ConvLayout = draw.choice(("SD", "DS"))
    block_size, num_spec = _draw_blocks(draw, domain, limits)
    groups = _draw_groups(draw, domain, conv_layout, num_spec, limits)
    per_request = len(groups) * (3 + num_spec if domain == "reachable" else 3)
    spacious = _block_bytes(groups, conv_layout) * (1 + per_request) * 4 < limits.budget
    placement = _Placement(draw, domain, conv_layout, groups, spacious)
    affordable = limits.budget // placement.bytes_per_block - 2
    requests = max(1, min(limits.requests, affordable // per_request))
    spare = draw.boundary(0, limits.spare) + (per_request if domain == "reachable" else 0)
    num_blocks = 1 + requests * per_request + min(spare, max(0, affordable - requests * per_request))
    table_rows, table_columns = _draw_table(draw, domain, scale, num_spec, requests, limits)
    layout = Layout(
        conv_layout=conv_layout,
        block_size=block_size,
        num_spec=num_spec,
        num_blocks=num_blocks,
        groups=placement.place(num_blocks),
        buffers=tuple(placement.buffers),
        table_rows=table_rows,
        table_columns=table_columns,
    )
    if draw.boolean(SPREAD_SHARE):
        layout = spread(draw, layout, domain)
    elif draw.boolean(EXTRAS_SHARE):
        layout = with_extras(draw, layout)
    return LayoutChoice(layout=layout, requests=requests)


_DRAFTS = ((2, 12), (0, 6), (1, 12), (3, 15), (4, 3), (5, 6), (7, 6), (8, 2), (15, 3), (31, 1))


def _draw_blocks(draw: Draw, domain: Domain, limits: Extent) -> tuple[int, int]:
    """Block size and number of speculative tokens. There are few block sizes: each needs another compilation."""
    num_spec = draw.weighted([(drafts, weight) for drafts, weight in _DRAFTS if drafts <= limits.most_drafts])
    if domain == "total":
        return draw.choice((4, 1, 2, 3, 7, 8, 16)), num_spec
    sizes = [size for size in (4, 4, 4, 4, 4, 4, 8, 8, 8, 8, 16, 16, 48, 48, 80, 80, 1072) if size > num_spec]
    return draw.choice(sizes), num_spec


def _draw_groups(
    draw: Draw, domain: Domain, conv_layout: ConvLayout, num_spec: int, limits: Extent
) -> list[list[LayerTemplate]]:
    def layer() -> LayerTemplate:
        if limits.property == "tiled":
            return draw_tiled_layer(draw, domain, conv_layout, num_spec)
        if domain == "reachable":
            return draw_reachable_layer(draw, num_spec, limits.roomy)
        return draw_total_layer(draw, conv_layout, limits.roomy)

    count = draw.weighted(((1, 4), (2, 4), (3, 3), (4, 1))) if limits.groups is None else limits.groups
    count = min(count, limits.states)
    common = layer()
    layers = draw.boundary(1, 4) if limits.layers is None else limits.layers
    groups: list[list[LayerTemplate]] = []
    left = limits.states
    for remaining in range(count, 0, -1):
        # Groups of one model differ in one layer at most, unless another kind of layer has its own group.
        template = layer() if draw.boolean(0.3) else common
        if groups and len(template) > left:
            break
        wanted = max(1, layers - draw.integer(0, 1))
        fits = max(1, (left - (remaining - 1)) // len(template))
        group = [template] * min(wanted, fits)
        if domain == "total" and draw.boolean(0.2):
            other = layer()
            if len(other) <= len(template):
                group[-1] = other
        left -= sum(len(states) for states in group)
        groups.append(group)
    return _shrunk(groups, conv_layout, limits.budget // (6 if domain == "total" else 4 + num_spec))


def _shrunk(groups: list[list[LayerTemplate]], conv_layout: ConvLayout, budget: int) -> list[list[LayerTemplate]]:
    """Drop layers, then groups, until one block for every group fits the budget."""
    while _block_bytes(groups, conv_layout) * len(groups) > budget:
        widest = max(groups, key=len)
        if len(widest) > 1:
            widest.pop()
        elif len(groups) > 1:
            groups.pop()
        else:
            break
    return groups


def _block_bytes(groups: list[list[LayerTemplate]], conv_layout: ConvLayout) -> int:
    """Bytes of one block of the widest group, without padding."""
    return max(sum(state.extent(conv_layout) for layer in group for state in layer) for group in groups)


def _draw_table(
    draw: Draw, domain: Domain, scale: Scale, num_spec: int, requests: int, limits: Extent
) -> tuple[int, int]:
    """Rows and columns of the block tables, from short lists: each row stride may need another compilation."""
    least = num_spec + 4 if domain == "reachable" else 4
    widths = [width for width in (8, 16, 40, 40, 331) if width >= least and width * requests <= limits.cells]
    width = draw.choice(widths or [40])
    if limits.cells > 200_000 and draw.boolean(0.3):
        width = 8003
    heights = [
        height
        for height in ((4, 8) if scale == "small" else (4, 8, 16, 64, 256, 1024, 2048))
        if height >= requests and height * width <= limits.cells
    ]
    return draw.choice(heights or [max(4, requests)]), width


class _Placement:
    """Where the states of every group lie: first the bytes of a block, then states and buffers."""

    def __init__(
        self,
        draw: Draw,
        domain: Domain,
        conv_layout: ConvLayout,
        groups: list[list[LayerTemplate]],
        spacious: bool,
    ) -> None:
        self._draw = draw
        self._total = domain == "total"
        self._conv_layout = conv_layout
        self._groups = groups
        self.buffers: list[Buffer] = []
        arrangements = [("layers", 3), ("blocks", 3), ("positions", 2)]
        if self._total:
            arrangements.append(("states", 2))
        self._arrangement = draw.weighted(arrangements)
        items = [state.item_size for group in groups for layer in group for state in layer]
        self._unit = max(items)
        self._padding = draw.choice(PADDINGS if spacious else PADDINGS[:3])
        self._gap = self._total and draw.boolean(0.3)
        # In-page offsets of the states of every layer, from a page start aligned to the largest element.
        self._offsets = [[self._page_offsets(layer) for layer in group] for group in groups]
        self._pages = self._page_sizes()
        positions = max(len(group) for group in groups)
        if self._arrangement == "blocks":
            self._block_stride = max(sum(pages) for pages in self._pages)
            if self._total and draw.boolean(0.3):
                self._block_stride += self._unit * draw.choice((1, 3, 8))
            self.bytes_per_block = self._block_stride
        elif self._arrangement == "states":  # unpadded
            self.bytes_per_block = sum(
                state.extent(conv_layout) for group in groups for layer in group for state in layer
            )
        else:
            self.bytes_per_block = sum(self._pages[0][:positions])

    def _page_offsets(self, layer: LayerTemplate) -> list[int]:
        offsets, end = [], 0
        for state in layer:
            if self._gap and self._draw.boolean():
                end += self._draw.integer(1, 9)
            end += -end % state.item_size
            offsets.append(end)
            end += state.extent(self._conv_layout)
        return offsets

    def _page_sizes(self) -> list[list[int]]:
        """Page bytes per group and layer. Each group has as many layers as positions need."""
        draw = self._draw
        positions = max(len(group) for group in self._groups)
        natural = [
            [
                offsets[-1] + layer[-1].extent(self._conv_layout)
                for layer, offsets in zip(group, group_offsets, strict=True)
            ]
            for group, group_offsets in zip(self._groups, self._offsets, strict=True)
        ]
        odd = self._unit * draw.choice((0, 0, 1, 3, 5)) if self._total else 0
        unit = self._unit if self._total and draw.boolean(0.8) else 256

        def padded(size: int) -> int:
            size = size + int(size * self._padding)
            return size + -size % unit + odd

        if self._arrangement == "blocks" and self._total:
            return [[padded(size) for size in group] for group in natural]
        if self._arrangement == "states" or (self._arrangement == "positions" and self._total):
            tallest = [max(group[i] for group in natural if i < len(group)) for i in range(positions)]
            return [[padded(size) for size in tallest] for _ in self._groups]
        # One page size for all: vLLM pads pages to it.
        page = padded(max(max(group) for group in natural))
        return [[page] * positions for _ in self._groups]

    def place(self, num_blocks: int) -> tuple[Group, ...]:
        """States with buffer, offset and strides; `buffers` is complete afterwards."""
        if self._arrangement == "states":
            return self._place_states(num_blocks)
        positions = max(len(group) for group in self._groups)
        if self._arrangement == "positions":
            starts = [self._new_buffer(self._pages[0][i] * num_blocks) for i in range(positions)]
            strides = self._pages[0]
            return self._build(lambda _, i: (i, starts[i], strides[i]))
        if self._arrangement == "layers":
            page = self._pages[0][0]
            layer_stride = page * num_blocks
            if self._total and self._draw.boolean(0.3):
                layer_stride += self._unit * self._draw.choice((1, 3, 8))
            start = self._new_buffer(layer_stride * positions)
            return self._build(lambda _, i: (0, start + i * layer_stride, page))
        start = self._new_buffer(self._block_stride * num_blocks)
        return self._build(lambda g, i: (0, start + sum(self._pages[g][:i]), self._block_stride))

    def _new_buffer(self, size: int) -> int:
        """Append a buffer with room for `size` bytes after the offset returned."""
        misalignment = front = back = 0
        if self._total:
            misalignment = self._draw.boundary(0, 255, (1, 2, 4, 8, 12, 16)) if self._draw.boolean() else 0
            front = -misalignment % self._unit
            if self._draw.boolean(0.2):
                front += self._unit * self._draw.integer(1, 5)
            back = self._draw.choice((0, 0, 1, 7, 16))
        self.buffers.append(Buffer(size=front + size + back, misalignment=misalignment))
        return front

    def _build(self, where: Callable[[int, int], tuple[int, int, int]]) -> tuple[Group, ...]:
        groups = []
        for g, group in enumerate(self._groups):
            layers = []
            for i, layer in enumerate(group):
                buffer, start, stride = where(g, i)
                layers.append(
                    Layer(
                        states=tuple(
                            self._state(state, buffer, start + offset, stride)
                            for state, offset in zip(layer, self._offsets[g][i], strict=True)
                        )
                    )
                )
            groups.append(Group(layers=tuple(layers)))
        return tuple(groups)

    def _place_states(self, num_blocks: int) -> tuple[Group, ...]:
        """One buffer per state: every base and stride is as odd as the element size allows."""
        draw = self._draw
        groups = []
        for group in self._groups:
            layers = []
            for layer in group:
                states = []
                for state in layer:
                    item = state.item_size
                    extent = state.extent(self._conv_layout)
                    stride = extent + -extent % item + item * draw.choice((0, 1, 2, 3, 7))
                    misalignment = draw.boundary(0, 255, (1, 2, 4, 8))
                    offset = -misalignment % item + item * draw.choice((0, 0, 1, 3))
                    self.buffers.append(Buffer(size=offset + stride * num_blocks, misalignment=misalignment))
                    states.append(self._state(state, len(self.buffers) - 1, offset, stride))
                layers.append(Layer(states=tuple(states)))
            groups.append(Group(layers=tuple(layers)))
        return tuple(groups)

    def _state(self, template: StateTemplate, buffer: int, offset: int, stride: int) -> State:
        if isinstance(template, ConvTemplate):
            return ConvState(
                item_size=template.item_size,
                window=template.window,
                dim=template.dim,
                buffer=buffer,
                offset=offset,
                block_stride=stride,
                row_stride=template.row_bytes if self._conv_layout == "DS" else None,
            )
        return TemporalState(
            item_size=template.item_size,
            shape=template.shape,
            buffer=buffer,
            offset=offset,
            block_stride=stride,
        )

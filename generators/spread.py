"""A spread layout has its blocks so far apart that a block id times its stride passes 2**31 or 2**32 bytes.

Real pools, with thousands of blocks, pass 2**31 in almost every deployment (docs/domain.md, section 6). A case has
dozens of blocks, so it needs a larger stride. Nothing lies between the blocks, so such a case needs no more memory.
"""

from __future__ import annotations

import msgspec

from harness.case import Buffer, Domain, Group, Layer, Layout
from harness.generators.draw import Draw

LARGEST_REAL_STRIDE = 150_000_000
"""Bytes from one block to the next in the widest real layout."""
LARGEST_SPAN = 1 << 35
"""Maximum bytes that a spread buffer may extend over."""
PAGE_UNIT = 256
"""Bytes: real pages are multiples of this, and so are strides of the reachable domain."""


def spread(draw: Draw, layout: Layout, domain: Domain) -> Layout:
    """Widen the stride of every state so that some block of the pool starts past 2**31, or 2**32, bytes.

    All states of a buffer get one stride, wider than the whole buffer was, so that states that were apart stay apart.
    Offsets and alignments stay. Returns the layout unchanged if its pool is too small for this with strides of its
    domain.
    """
    most = LARGEST_REAL_STRIDE if domain == "reachable" else LARGEST_SPAN
    # The first block past the threshold, as low as the widest stride allows.
    least = {threshold: -(-threshold // most) for threshold in (1 << 31, 1 << 32)}
    possible = [threshold for threshold in least if least[threshold] < layout.num_blocks - 1]
    if not possible:
        return layout
    threshold = draw.choice(possible)
    crossing = draw.boundary(least[threshold], layout.num_blocks - 1)
    unit = PAGE_UNIT if domain == "reachable" else max(state.item_size for _, state in layout.states())
    strides = []
    for buffer in layout.buffers:
        stride = -(-max(buffer.size, -(-threshold // crossing)) // unit) * unit
        strides.append(stride + unit * draw.choice((0, 1, 3, 32)))
    if max(strides) > most + 33 * PAGE_UNIT or max(strides) * layout.num_blocks > LARGEST_SPAN:
        return layout
    buffers = tuple(
        Buffer(size=stride * (layout.num_blocks - 1) + buffer.size, misalignment=buffer.misalignment)
        for stride, buffer in zip(strides, layout.buffers, strict=True)
    )
    groups = tuple(
        Group(
            layers=tuple(
                Layer(
                    states=tuple(
                        msgspec.structs.replace(state, block_stride=strides[state.buffer]) for state in layer.states
                    )
                )
                for layer in group.layers
            )
        )
        for group in layout.groups
    )
    return msgspec.structs.replace(layout, buffers=buffers, groups=groups)

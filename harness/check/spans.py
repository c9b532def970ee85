"""Spans are the bytes that kernels may touch, object by object; an executor that checks reports everything else."""

from __future__ import annotations

from harness.case import ConvState
from harness.kernels.executors.base import AccessSpan
from harness.memory import LayoutPlan, MemoryPlan


def array_spans(plan: MemoryPlan, index: int) -> list[AccessSpan]:
    """The arguments of an operation that kernels may touch, and which of them they may write."""
    return [
        AccessSpan(span.start, span.size, array.name, f"{array.name} of operation {index}", writable=array.written)
        for array in plan.contents[index]
        for span in (plan.arrays[index][array.name],)
    ]


def layout_spans(base: LayoutPlan) -> list[AccessSpan]:
    """The parts of a layout that kernels may touch: each block of each state separately, and each table."""
    spans = [
        AccessSpan(start, base.table_bytes, "table", f"block table of group {group}", writable=False)
        for group, start in enumerate(base.tables)
    ]
    for place in base.states:
        kind = "conv" if isinstance(place.state, ConvState) else "temporal"
        name = f"group {place.group}, layer {place.layer}, {kind} state {place.index}"
        spans += [
            AccessSpan(place.block(block), place.extent, kind, f"{name}, block {block}")
            for block in range(base.layout.num_blocks)
        ]
    return spans

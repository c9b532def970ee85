"""Passes over the settings of a case: conv layout, drafts, payload, poison, order."""

from __future__ import annotations

from collections.abc import Iterator

from harness.case import Case, Execution
from harness.shrink.cases import edits
from harness.shrink.cases.edits import replace
from harness.shrink.proposals import Proposal, toward


def simpler_settings(case: Case) -> Iterator[Proposal[Case]]:
    """SD instead of DS, and no more speculative tokens than needed."""
    if case.layout.conv_layout == "DS":
        yield lambda: edits.change_conv_layout(case, "SD")
    for spec in toward(case.layout.num_spec, 0):
        yield lambda spec=spec: edits.with_layout(case, num_spec=spec)  # type: ignore[misc]


def canonical_contents(case: Case) -> Iterator[Proposal[Case]]:
    """Payload seed 0, poison pattern A, programs in natural order; rows in the order of their slots."""
    if case.contents.payload_seed:
        yield lambda: edits.with_contents(case, payload_seed=0)
    if case.contents.poison != "A":
        yield lambda: edits.with_contents(case, poison="A")
    if case.execution != Execution():
        yield lambda: replace(case, execution=Execution())
    if case.execution.seed:
        yield lambda: replace(case, execution=replace(case.execution, seed=0))
    for index, operation in enumerate(case.program):
        ordered = tuple(sorted(operation.rows, key=lambda row: row.slot))
        if ordered != operation.rows:
            yield lambda i=index, o=operation, r=ordered: edits.with_operation(case, i, replace(o, rows=r))  # type: ignore[misc]

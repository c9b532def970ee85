"""Planned steps are what the runner of a symbolic run gives the device, step by step: to be compared with an engine's.

Tables are those at the time of the step; the plan itself keeps them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from harness.case.sequence import SequenceCase
from harness.case.step_plan import StepPlan
from harness.case.step_row import StepRow
from harness.sequences.controls import Controls


class PlannedSteps(msgspec.Struct, frozen=True):
    """The steps that have rows, and what ended the run early: a violation, or what the release lacks."""

    steps: list[list[StepRow]]
    ended: str | None = None


def planned_steps(case: SequenceCase, controls: Controls) -> PlannedSteps:
    """The steps of a symbolic run, up to its first violation. Raises ReleaseLacks."""
    from harness.sequences.run import SequenceRun

    run = SequenceRun(case, controls, host=False)
    steps: list[list[StepRow]] = []
    begin = run.runner.begin

    def noted(*args: Any) -> StepPlan:
        plan = begin(*args)
        moves = {move.request: (move.source, move.bias) for move in plan.precopy}
        if plan.rows:
            steps.append(
                [
                    StepRow(
                        request=int(row.request.rpartition(" ")[2]),
                        slot=row.slot,
                        computed=row.computed,
                        scheduled=row.scheduled,
                        drafts=row.drafts,
                        accepted=row.accepted,
                        state_column=row.state_column,
                        move=moves.get(row.request),
                        attention=tuple(map(tuple, row.attention)),
                        mamba=tuple(map(tuple, row.mamba)),
                    )
                    for row in plan.rows
                ]
            )
        return plan

    vars(run.runner)["begin"] = noted
    result = run.run()
    ended = result.skipped if result.violation is None else result.violation.summary
    return PlannedSteps(steps, ended)

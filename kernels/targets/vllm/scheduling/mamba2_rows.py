"""Mamba2 rows are the rows of a V1 batch as layers of Mamba2 run them: as decodes or as prefills.

Gated delta nets get the number of drafts of each row, and the V1 worker plans its rows by that. Layers of Mamba2 use
the batch instead: how many tokens a row has, whether it is past its prompt, and its position in the batch. A batch is
split in two, and every row behind the first prefill is a prefill. Where this differs from the worker's plan, layers of
one family go wrong. So the device runs rows as Mamba2 does, except where rules say otherwise.

Rows of one token have the same result in both families, and stay as planned. A row of which nothing is computed is a
prefill of Mamba2, also if it is padded with drafts: then its state is that of the drafts, too. In files that name no
layers such rows stay as planned: they are an issue of both families, and show there in their first step.
"""

from __future__ import annotations

from harness.case.step_plan import PlannedRow, StepPlan
from harness.kernels.targets.vllm.scheduling.checkpoints import Checkpoints
from harness.kernels.targets.vllm.scheduling.rules import RunnerRules


def run_as_mamba2(
    plan: StepPlan,
    rules: RunnerRules,
    longest: int,
    prefilling: list[bool],
    checkpoints: Checkpoints,
    *,
    fresh_as_planned: bool = False,
) -> None:
    """Change `speculative` of the rows of a V1 plan to match layers of Mamba2. A decode has at most
    `longest` tokens; `prefilling` says which rows are not past their prompt. `fresh_as_planned`: rows of which nothing
    is computed stay as they are."""
    rows = plan.rows
    if longest == 1 or not (rules.zero_drafts or any(row.drafts for row in rows)):
        return  # up to 0.31 a batch without drafts is not marked as speculative decoding
    behind = False
    for i, row in enumerate(rows):
        if row.scheduled == 1:
            continue
        if row.computed == 0:
            if row.speculative and not rules.fresh_rows_start_empty and not fresh_as_planned:
                rows[i], behind = _as_prefill(row, checkpoints), True
            continue
        tail = row.speculative and row.drafts == row.scheduled - 1 and prefilling[i]
        if tail:
            if not rules.padded_tails or (behind and rules.cuts_off_tails):
                rows[i] = _as_prefill(row, checkpoints)
        elif row.drafts == 0 and not prefilling[i] and row.scheduled <= longest and rules.recomputed_as_decodes:
            rows[i] = row._replace(speculative=True, checkpoint_offset=0, checkpoint_column=-1)
        behind = behind or row.scheduled > longest or (prefilling[i] and not tail)


def _as_prefill(row: PlannedRow, checkpoints: Checkpoints) -> PlannedRow:
    offset, column = checkpoints.of(row.request, row.computed + row.scheduled, row.scheduled)
    return row._replace(speculative=False, checkpoint_offset=offset, checkpoint_column=column)

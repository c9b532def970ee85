"""Mamba2 rows are the rows of a V1 batch as layers of Mamba2 run them: as decodes or as prefills.

Gated delta nets are told how many drafts each row has, and the V1 worker plans its rows by that. Layers of Mamba2 look
at the batch instead: how many tokens a row has, whether it is past its prompt, and where it stands. A batch is cut in
two, and every row behind the first prefill is a prefill. Where this differs from what the worker planned, layers of one
family go wrong, so the device runs what Mamba2 makes of it, and fixes say when that is not to be.

Rows of one token, and rows of requests of which nothing is computed, come to the same in both families or are an issue
of both, and stay as planned.
"""

from __future__ import annotations

from harness.case.step_plan import ForwardRow, StepPlan
from harness.kernels.targets.vllm.scheduling.worker_v1 import WorkerV1
from harness.kernels.targets.vllm.scheduling.worker_v1_pair import PairedWorkerV1


def run_as_mamba2(plan: StepPlan, worker: WorkerV1 | PairedWorkerV1) -> None:
    """Change `speculative` of the rows of a V1 plan to what layers of Mamba2 make of them."""
    rows, longest = plan.rows, worker.config.num_spec + 1
    if longest == 1 or not (worker.runs_zero_drafts_as_decodes or any(row.drafts for row in rows)):
        return  # up to 0.31 a batch without drafts is not told to be one of speculative decoding
    prefilling = worker.prefilling(len(rows))
    behind = False
    for i, row in enumerate(rows):
        if row.scheduled == 1 or row.computed == 0:
            continue
        tail = row.speculative and row.drafts == row.scheduled - 1 and prefilling[i]
        if tail:
            if not worker.runs_one_token_as_decode or (behind and worker.cuts_off_tails):
                rows[i] = _as_prefill(row, worker)
        elif row.drafts == 0 and not prefilling[i] and row.scheduled <= longest and worker.runs_recomputed_as_decodes:
            rows[i] = row._replace(speculative=True, checkpoint_offset=0, checkpoint_column=-1)
        behind = behind or row.scheduled > longest or (prefilling[i] and not tail)


def _as_prefill(row: ForwardRow, worker: WorkerV1 | PairedWorkerV1) -> ForwardRow:
    offset, column = worker.checkpoints.of(row.request, row.computed + row.scheduled, row.scheduled)
    return row._replace(speculative=False, checkpoint_offset=offset, checkpoint_column=column)

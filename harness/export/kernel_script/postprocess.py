"""The call after a step, of both runners."""

from __future__ import annotations

from typing import Any

from harness.export.kernel_script.case import Operation
from harness.export.kernel_script.expected import Expected, after_moves
from harness.export.kernel_script.memory import Image, Memory
from harness.export.kernel_script.objects import Setup
from harness.export.kernel_script.postprocess_rule import after_step


def expect_postprocess(operation: Operation, memory: Memory, before: Image) -> Expected:
    """Accepted counts are in a buffer of their own for the V1 runner, in place for V2."""
    rows = [row for row in operation.rows if row["slot"] >= 0]  # -1: a row that is skipped
    decided = [after_step(row, memory.case.block_size) for row in rows]
    counts: list[Any] = [None] * len(operation.arrays["accepted"])
    if operation.runner == "V2":
        counts = list(operation.arrays["accepted"])
    for row, (_, accepted) in zip(rows, decided, strict=True):
        counts[row["slot"]] = accepted
    return Expected(after_moves(memory, before, [move for move, _ in decided if move]), {"accepted counts": counts})


def call_postprocess(operation: Operation, setup: Setup) -> dict[str, list[int]]:
    context, arrays, requests = setup.context, setup.arrays, len(operation.rows)
    if operation.runner == "V1":
        setup.function(context, "run_fused_postprocess")(
            num_reqs=requests,
            num_accepted_tokens_gpu=arrays["accepted"],
            mamba_state_idx_gpu=arrays["state_column"],
            num_scheduled_tokens_gpu=arrays["scheduled"],
            num_computed_tokens_gpu=arrays["computed"],
            num_draft_tokens_gpu=arrays["draft"],
        )
        return {"accepted counts": context.num_accepted_tokens_out.tolist()}
    setup.function(context, "run_fused_postprocess_align")(
        num_reqs=requests,
        num_accepted_tokens_gpu=arrays["accepted"],
        state_idx_gpu=arrays["state_column"],
        new_num_computed_tokens_gpu=arrays["new_computed"],
        idx_mapping=arrays["mapping"][:requests],
    )
    return {"accepted counts": arrays["accepted"].tolist()}

"""The call before a step that moves running states into new blocks, of both runners."""

from __future__ import annotations

import inspect

from harness.export.kernel_script.case import Operation
from harness.export.kernel_script.expected import Expected, Move, after_moves
from harness.export.kernel_script.loading import CannotRun
from harness.export.kernel_script.memory import Image, Memory
from harness.export.kernel_script.objects import Setup


def expect_precopy(operation: Operation, memory: Memory, before: Image) -> Expected:
    """A request without a state, or one that stays in its column, does not move."""
    moves = [
        Move(row["slot"], row["source_column"], row["destination_column"], row["bias"])
        for row in operation.rows
        if row["slot"] >= 0 and row["source_column"] not in (-1, row["destination_column"])
    ]
    return Expected(after_moves(memory, before, moves), {})


def call_precopy(operation: Operation, setup: Setup) -> dict[str, list[int]]:
    run, arrays, requests = setup.function(setup.context, "run_fused_precopy"), setup.arrays, len(operation.rows)
    if operation.runner == "V1" and "None" not in str(inspect.signature(run).parameters["idx_mapping"].annotation):
        raise CannotRun("run_fused_precopy of this vLLM needs an index mapping: it is for the V2 runner alone")
    run(
        num_reqs=requests,
        state_idx_gpu=arrays["destination_column"],
        src_col_gpu=arrays["source_column"],
        token_bias_gpu=arrays["bias"],
        idx_mapping=arrays["mapping"][:requests] if operation.runner == "V2" else None,
    )
    return {}

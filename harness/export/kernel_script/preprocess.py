"""The V1 runner's call before a step: forget who left, give every request its column, move states between columns."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

from harness.export.kernel_script.case import Operation
from harness.export.kernel_script.expected import Expected, Move, after_moves
from harness.export.kernel_script.host_objects import Host
from harness.export.kernel_script.loading import CannotRun
from harness.export.kernel_script.memory import Image, Memory
from harness.export.kernel_script.objects import Setup


def expect_preprocess(operation: Operation, memory: Memory, before: Image) -> Expected:
    """The V1 runner's columns (None: forgotten) and accepted counts, and memory."""
    size, moves = memory.case.block_size, []
    counts = list(operation.options["accepted_on_host"])
    columns: list[Any] = []
    for number, row in enumerate(operation.rows):
        source = row["state_column"]
        if source is None or row["resumed"]:
            source = (row["computed"] - 1) // size  # -1: nothing is computed
        destination = (row["computed"] + row["scheduled"] - 1) // size
        columns.append(destination)
        if source not in (-1, destination):
            moves.append(Move(row["slot"], source, destination, row["accepted"] - 1))
            counts[number] = 1
    columns += [one["state_column"] if one["absence"] == "idle" else None for one in operation.options["absent"]]
    return Expected(after_moves(memory, before, moves), {"columns": columns, "accepted counts on the host": counts})


def call_preprocess(operation: Operation, setup: Setup) -> dict[str, list[Any]]:
    host, path = Host(operation, setup), operation.options["path"]
    preprocess = setup.function(setup.vllm.worker, "preprocess_mamba")
    choice: dict[str, Any] = {}
    if "align_ctx" in inspect.signature(preprocess).parameters:  # since 0.27.0 a kernel may make the moves
        choice["align_ctx"] = None if path == "scalar" else setup.context
    elif path == "fused":
        raise CannotRun("this vLLM has no fused precopy for the V1 runner")
    preprocess(
        host.scheduler_output(),
        setup.config,
        SimpleNamespace(enable_prefix_caching=True),
        host.columns,
        host.input_batch(),
        host.requests,
        setup.forward_context,
        setup.copy_functions,
        setup.buffers.preprocess,
        **choice,
    )
    columns = [host.columns.get(name) for name in (*host.names, *host.gone)]
    return {"columns": columns, "accepted counts on the host": host.accepted.tolist()}

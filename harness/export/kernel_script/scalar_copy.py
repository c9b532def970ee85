"""The V1 runner's list of copies: the host works out addresses and sizes, and one kernel copies."""

from __future__ import annotations

from harness.export.kernel_script.case import Operation
from harness.export.kernel_script.expected import Expected, Move, after_moves
from harness.export.kernel_script.host_objects import Host
from harness.export.kernel_script.memory import Image, Memory
from harness.export.kernel_script.objects import Setup


def listed(operation: Operation) -> list[Move]:
    """The moves of the batch; after a step a state may move inside its block, too."""
    moves = []
    for row in operation.rows:
        source, destination, bias = row["source_column"], row["destination_column"], row["bias"]
        stays = source == destination and not (operation.options["within_blocks"] and bias)
        if source != -1 and not stays:
            moves.append(Move(row["slot"], source, destination, bias))
    return moves


def expect_scalar_copy(operation: Operation, memory: Memory, before: Image) -> Expected:
    return Expected(after_moves(memory, before, listed(operation)), {})


def call_scalar_copy(operation: Operation, setup: Setup) -> dict[str, list[int]]:
    host, copies, worker = Host(operation, setup), setup.buffers.preprocess, setup.vllm.worker
    copies.offset = 0
    for move in listed(operation):
        setup.function(worker, "collect_mamba_copy_meta")(
            copies,
            setup.config,
            setup.copy_functions,
            copies.mamba_group_ids,
            move.source,
            move.destination,
            move.bias,
            host.requests[host.names[move.slot]],
            setup.forward_context,
        )
    setup.function(worker, "do_mamba_copy_block")(copies)
    return {}

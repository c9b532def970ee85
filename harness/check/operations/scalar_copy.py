"""How the scalar path, which moves states, is called."""

from __future__ import annotations

from harness.case import ScalarCopy
from harness.case.operations.results import request_name
from harness.check.operations.call import Call, Tensors
from harness.check.operations.host import make_batch, table_rows
from harness.kernels.targets.arguments import HostBatch, HostRequest, StateMove
from harness.kernels.targets.base import Bound, TargetLacks
from harness.oracles.before import Before
from harness.oracles.decisions import decide_scalar_copy

Moves = tuple[HostBatch, list[StateMove]]
"""A batch, and the moves of those rows that move."""


class ScalarCopyCall(Call[ScalarCopy, Moves]):
    def prepare(self, bound: Bound, operation: ScalarCopy, before: Before) -> Moves:
        _ = bound.staged  # allocated before the executor gets the list of what kernels may touch
        requests, moves = [], []
        for i, row in enumerate(operation.rows):
            move = decide_scalar_copy(row, within_blocks=operation.within_blocks).move
            blocks = table_rows(before, row.slot) if move else ()
            requests.append(HostRequest(request_name(i), 0, 0, blocks=blocks))
            if move is not None:
                moves.append(StateMove(requests[-1], move.source, move.destination, move.bias))
        if before.case.domain == "reachable":
            _require_listed(bound, operation, moves)
        return make_batch(before, len(requests), requests, {}, ()), moves

    def run(self, bound: Bound, operation: ScalarCopy, tensors: Tensors, host: Moves) -> None:
        bound.scalar_copy(*host)


def _require_listed(bound: Bound, operation: ScalarCopy, moves: list[StateMove]) -> None:
    """Raise TargetLacks if no runner of the target makes such a list."""
    if operation.within_blocks and not bound.lists_after_step:
        raise TargetLacks("its runners list no copies after a step: a fused kernel moves states then")
    if not operation.within_blocks and not bound.lists_with_bias and any(move.bias for move in moves):
        raise TargetLacks("its runners list no copies with a bias: a fused kernel moves states then")

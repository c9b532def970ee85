"""How states move by the scalar path."""

from __future__ import annotations

from typing import Any

from harness.case import Case, ScalarCopy
from harness.case.operations.results import request_name
from harness.check.operations.call import Before, Call, Tensors
from harness.check.operations.host import make_batch, table_rows
from harness.kernels.targets.arguments import HostRequest, StateMove
from harness.kernels.targets.base import Bound
from harness.oracles.decisions import decide_precopy


class ScalarCopyCall(Call):
    def prepare(self, bound: Bound, case: Case, index: int, before: Before) -> Any:
        """A batch, and the moves of those rows that move."""
        operation = case.program[index]
        assert isinstance(operation, ScalarCopy)
        _ = bound.staged  # made before the executor is told what kernels may touch
        requests, moves = [], []
        for i, row in enumerate(operation.rows):
            move = decide_precopy(row).move
            blocks = table_rows(case, before, row.slot) if move else ()
            requests.append(HostRequest(request_name(i), 0, 0, blocks=blocks))
            if move is not None:
                moves.append(StateMove(requests[-1], move.source, move.destination, move.bias))
        return make_batch(case, len(requests), requests, {}, ()), moves

    def run(self, bound: Bound, case: Case, index: int, tensors: Tensors, host: Any) -> None:
        bound.scalar_copy(*host)

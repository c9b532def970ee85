"""How advance is called."""

from __future__ import annotations

from typing import Any

from harness.case import Case
from harness.check.operations.call import Call, Tensors
from harness.kernels.targets.arguments import AdvanceArrays
from harness.kernels.targets.base import Bound


class AdvanceCall(Call):
    def run(self, bound: Bound, case: Case, index: int, tensors: Tensors, host: Any) -> None:
        bound.advance(
            AdvanceArrays(
                num_requests=len(case.program[index].rows),
                state_column=tensors["state_column"],
                accepted=tensors["accepted"],
                computed=tensors["computed"],
                source_column=tensors["source_column"],
                bias=tensors["bias"],
                query_start=tensors["query_start"],
                mapping=tensors["mapping"],
            )
        )

"""How postprocess and precopy are called."""

from __future__ import annotations

from typing import Any

from harness.case import Case, Postprocess, Precopy
from harness.case.operations.results import ACCEPTED_OUT
from harness.check.operations.call import Call, Results, Tensors, as_numbers
from harness.kernels.targets.base import Bound, PostprocessArrays, PrecopyArrays


class PostprocessCall(Call):
    def run(self, bound: Bound, case: Case, index: int, tensors: Tensors, host: Any) -> None:
        operation = case.program[index]
        assert isinstance(operation, Postprocess)
        bound.postprocess(
            PostprocessArrays(
                runner=operation.runner,
                num_requests=len(operation.rows),
                accepted=tensors["accepted"],
                state_column=tensors["state_column"],
                scheduled=tensors.get("scheduled"),
                computed=tensors.get("computed"),
                draft=tensors.get("draft"),
                new_computed=tensors.get("new_computed"),
                mapping=tensors.get("mapping"),
            )
        )

    def results(self, bound: Bound, case: Case, index: int, host: Any) -> Results:
        """V2 counts are an argument, so memory has them."""
        operation = case.program[index]
        assert isinstance(operation, Postprocess)
        return {ACCEPTED_OUT: as_numbers(bound.accepted_out)} if operation.runner == "V1" else {}


class PrecopyCall(Call):
    def run(self, bound: Bound, case: Case, index: int, tensors: Tensors, host: Any) -> None:
        operation = case.program[index]
        assert isinstance(operation, Precopy)
        bound.precopy(
            PrecopyArrays(
                runner=operation.runner,
                num_requests=len(operation.rows),
                destination_column=tensors["destination_column"],
                source_column=tensors["source_column"],
                bias=tensors["bias"],
                mapping=tensors.get("mapping"),
            )
        )

"""How postprocess and precopy are called."""

from __future__ import annotations

from harness.case import Postprocess, Precopy
from harness.case.operations.results import ACCEPTED_OUT
from harness.check.operations.call import DeviceCall, Results, Tensors, as_numbers
from harness.kernels.targets.base import Bound, PostprocessArrays, PrecopyArrays


class PostprocessCall(DeviceCall[Postprocess]):
    def run(self, bound: Bound, operation: Postprocess, tensors: Tensors, host: None) -> None:
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

    def results(self, bound: Bound, operation: Postprocess, host: None) -> Results:
        """V2 counts are an argument, so memory has them."""
        return {ACCEPTED_OUT: as_numbers(bound.accepted_out)} if operation.runner == "V1" else {}


class PrecopyCall(DeviceCall[Precopy]):
    def run(self, bound: Bound, operation: Precopy, tensors: Tensors, host: None) -> None:
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

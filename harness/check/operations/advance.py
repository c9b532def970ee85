"""How advance is called."""

from __future__ import annotations

from harness.case import Advance
from harness.check.operations.call import DeviceCall, Tensors
from harness.kernels.targets.arguments import AdvanceArrays
from harness.kernels.targets.base import Bound


class AdvanceCall(DeviceCall[Advance]):
    def run(self, bound: Bound, operation: Advance, tensors: Tensors, host: None) -> None:
        bound.advance(
            AdvanceArrays(
                num_requests=len(operation.rows),
                state_column=tensors["state_column"],
                accepted=tensors["accepted"],
                computed=tensors["computed"],
                source_column=tensors["source_column"],
                bias=tensors["bias"],
                query_start=tensors["query_start"],
                mapping=tensors["mapping"],
            )
        )

"""How the V1 runner's postprocess entry point is called: a batch is staged first."""

from __future__ import annotations

from typing import Any

from harness.case import Case, PostprocessEntry
from harness.case.operations.results import ACCEPTED_OUT, request_name
from harness.check.operations.call import Before, Call, Results, Tensors, as_numbers
from harness.check.operations.host import accepted_results, fill_staged, make_batch, staged_results
from harness.kernels.targets.arguments import HostRequest
from harness.kernels.targets.base import Bound


class PostprocessEntryCall(Call):
    def unbound(self, case: Case, index: int) -> bool:
        operation = case.program[index]
        assert isinstance(operation, PostprocessEntry)
        return operation.first_use

    def prepare(self, bound: Bound, case: Case, index: int, before: Before) -> Any:
        operation = case.program[index]
        assert isinstance(operation, PostprocessEntry)
        fill_staged(bound, case, index)
        requests = [
            HostRequest(request_name(i), row.computed, row.scheduled, row.draft) for i, row in enumerate(operation.rows)
        ]
        columns = {request_name(i): row.state_column for i, row in enumerate(operation.rows)}
        return make_batch(case, len(requests), requests, columns, ())

    def run(self, bound: Bound, case: Case, index: int, tensors: Tensors, host: Any) -> None:
        bound.stage(host)
        bound.postprocess_entry(host, tensors["accepted"])

    def results(self, bound: Bound, case: Case, index: int, host: Any) -> Results:
        return {ACCEPTED_OUT: as_numbers(bound.accepted_out), **accepted_results(host), **staged_results(bound)}

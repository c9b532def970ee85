"""How the V1 runner's postprocess entry point is called: a batch is staged first."""

from __future__ import annotations

from harness.case import PostprocessEntry
from harness.case.operations.results import ACCEPTED_OUT, request_name
from harness.check.operations.call import Call, Results, Tensors, as_numbers
from harness.check.operations.host import accepted_results, fill_staged, make_batch, staged_results
from harness.kernels.targets.arguments import HostBatch, HostRequest
from harness.kernels.targets.base import Bound
from harness.oracles.before import Before


class PostprocessEntryCall(Call[PostprocessEntry, HostBatch]):
    def unbound(self, operation: PostprocessEntry) -> bool:
        return operation.first_use

    def prepare(self, bound: Bound, operation: PostprocessEntry, before: Before) -> HostBatch:
        fill_staged(bound, before)
        requests = [
            HostRequest(request_name(i), row.computed, row.scheduled, row.draft) for i, row in enumerate(operation.rows)
        ]
        columns = {request_name(i): row.state_column for i, row in enumerate(operation.rows)}
        return make_batch(before, len(requests), requests, columns, ())

    def run(self, bound: Bound, operation: PostprocessEntry, tensors: Tensors, host: HostBatch) -> None:
        bound.stage(host)
        bound.postprocess_entry(host, tensors["accepted"])

    def results(self, bound: Bound, operation: PostprocessEntry, host: HostBatch) -> Results:
        return {ACCEPTED_OUT: as_numbers(bound.accepted_out), **accepted_results(host), **staged_results(bound)}

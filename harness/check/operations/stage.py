"""How a batch is staged."""

from __future__ import annotations

from harness.case import Stage
from harness.case.operations.results import request_name
from harness.check.operations.call import Call, Results, Tensors
from harness.check.operations.host import fill_staged, make_batch, staged_results
from harness.kernels.targets.arguments import HostBatch, HostRequest
from harness.kernels.targets.base import Bound
from harness.oracles.before import Before

WAITING = 2**23
"""Numbers of requests that wait: unlike any in the batch."""


class StageCall(Call[Stage, HostBatch]):
    def prepare(self, bound: Bound, operation: Stage, before: Before) -> HostBatch:
        fill_staged(bound, before)
        requests = [
            HostRequest(request_name(i), row.computed, row.scheduled, row.draft) for i, row in enumerate(operation.rows)
        ]
        columns = {
            request_name(i): row.state_column for i, row in enumerate(operation.rows) if row.state_column is not None
        }
        for i in range(len(requests), len(requests) + operation.waiting):
            requests.append(HostRequest(request_name(i), WAITING + i, WAITING + 2 * i, 3))
            columns[request_name(i)] = WAITING + 3 * i
        return make_batch(before, len(operation.rows), requests, columns, ())

    def run(self, bound: Bound, operation: Stage, tensors: Tensors, host: HostBatch) -> None:
        bound.stage(host)

    def results(self, bound: Bound, operation: Stage, host: HostBatch) -> Results:
        return staged_results(bound)

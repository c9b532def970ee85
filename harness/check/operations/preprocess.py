"""How the V1 runner's preprocess is called."""

from __future__ import annotations

from harness.case import Preprocess
from harness.case.operations.results import COLUMNS, request_name
from harness.check.operations.call import Call, Results, Tensors
from harness.check.operations.host import (
    accepted_results,
    fill_staged,
    make_batch,
    remembered_columns,
    staged_results,
    table_rows,
    with_absent,
)
from harness.kernels.targets.arguments import HostBatch, HostRequest
from harness.kernels.targets.base import Bound
from harness.oracles.before import Before


class PreprocessCall(Call[Preprocess, HostBatch]):
    def prepare(self, bound: Bound, operation: Preprocess, before: Before) -> HostBatch:
        fill_staged(bound, before)
        rows = operation.rows
        requests = [
            HostRequest(request_name(i), row.computed, row.scheduled, blocks=table_rows(before, row.slot))
            for i, row in enumerate(rows)
        ]
        known = [row.state_column for row in rows] + [absent.state_column for absent in operation.absent]
        columns = {request_name(i): column for i, column in enumerate(known) if column is not None}
        batch = make_batch(before, len(rows), requests, columns, [row.accepted for row in rows])
        return with_absent(batch, operation.absent, [i for i, row in enumerate(rows) if row.resumed])

    def run(self, bound: Bound, operation: Preprocess, tensors: Tensors, host: HostBatch) -> None:
        bound.preprocess(host, operation.path)

    def results(self, bound: Bound, operation: Preprocess, host: HostBatch) -> Results:
        columns = remembered_columns(host, len(operation.rows) + len(operation.absent))
        seen = {COLUMNS: columns, **accepted_results(host)}
        if operation.path == "production" and not bound.has_fused_precopy:
            return seen  # nothing is staged for a kernel that does not exist
        return {**seen, **staged_results(bound)}

"""How the bookkeeping of `all` mode is called."""

from __future__ import annotations

import numpy as np

from harness.case import AllMode
from harness.case.operations.results import COLUMNS, DEVICE, HOST, PREVIOUS_COLUMN, request_name, staged_name
from harness.check.operations.call import Call, Results, Tensors, as_numbers
from harness.check.operations.host import make_batch, remembered_columns, with_absent
from harness.kernels.targets.arguments import HostBatch, HostRequest
from harness.kernels.targets.base import Bound
from harness.memory import stale_numbers
from harness.oracles.before import Before


class AllModeCall(Call[AllMode, HostBatch]):
    def prepare(self, bound: Bound, operation: AllMode, before: Before) -> HostBatch:
        import torch

        view = bound.previous_column
        stale = [stale_numbers(before.payload_seed, side, len(view.host), 100, 2**20) for side in (0, 1)]
        view.host[:] = stale[0]
        view.device.copy_(torch.from_numpy(stale[1]))
        rows = operation.rows
        requests = [HostRequest(request_name(i), row.computed, row.scheduled) for i, row in enumerate(rows)]
        known = [row.state_column for row in rows] + [absent.state_column for absent in operation.absent]
        columns = {request_name(i): column for i, column in enumerate(known) if column is not None}
        batch = make_batch(before, len(rows), requests, columns, ())
        return with_absent(batch, operation.absent, [i for i, row in enumerate(rows) if row.resumed])

    def run(self, bound: Bound, operation: AllMode, tensors: Tensors, host: HostBatch) -> None:
        bound.all_mode(host)

    def results(self, bound: Bound, operation: AllMode, host: HostBatch) -> Results:
        view = bound.previous_column
        return {
            COLUMNS: remembered_columns(host, len(operation.rows) + len(operation.absent)),
            staged_name(HOST, PREVIOUS_COLUMN): view.host.astype(np.int64),
            staged_name(DEVICE, PREVIOUS_COLUMN): as_numbers(view.device),
        }

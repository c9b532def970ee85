"""How the bookkeeping of `all` mode is called."""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.case import AllMode, Case
from harness.case.operations.results import COLUMNS, DEVICE, HOST, PREVIOUS_COLUMN, request_name, staged_name
from harness.check.operations.call import Before, Call, Results, Tensors, as_numbers
from harness.check.operations.host import make_batch, remembered_columns, with_absent
from harness.kernels.targets.arguments import HostRequest
from harness.kernels.targets.base import Bound
from harness.memory import stale_numbers


class AllModeCall(Call):
    def prepare(self, bound: Bound, case: Case, index: int, before: Before) -> Any:
        import torch

        operation = case.program[index]
        assert isinstance(operation, AllMode)
        view = bound.previous_column
        stale = [stale_numbers(case.contents.payload_seed, side, len(view.host), 100, 2**20) for side in (0, 1)]
        view.host[:] = stale[0]
        view.device.copy_(torch.from_numpy(stale[1]))
        rows = operation.rows
        requests = [HostRequest(request_name(i), row.computed, row.scheduled) for i, row in enumerate(rows)]
        known = [row.state_column for row in rows] + [absent.state_column for absent in operation.absent]
        columns = {request_name(i): column for i, column in enumerate(known) if column is not None}
        batch = make_batch(case, len(rows), requests, columns, ())
        return with_absent(batch, operation.absent, [i for i, row in enumerate(rows) if row.resumed])

    def run(self, bound: Bound, case: Case, index: int, tensors: Tensors, host: Any) -> None:
        bound.all_mode(host)

    def results(self, bound: Bound, case: Case, index: int, host: Any) -> Results:
        operation = case.program[index]
        assert isinstance(operation, AllMode)
        view = bound.previous_column
        return {
            COLUMNS: remembered_columns(host, len(operation.rows) + len(operation.absent)),
            staged_name(HOST, PREVIOUS_COLUMN): view.host.astype(np.int64),
            staged_name(DEVICE, PREVIOUS_COLUMN): as_numbers(view.device),
        }

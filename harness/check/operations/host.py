"""The host of the V1 runner: what it keeps about requests, built for every operation from the case alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from harness.case import AbsentRequest
from harness.case.operations.results import ACCEPTED_ON_HOST, DEVICE, HOST, NO_COLUMN, request_name, staged_name
from harness.check.operations.call import Results, as_numbers
from harness.kernels.targets.arguments import HostBatch, HostRequest
from harness.kernels.targets.base import Bound
from harness.memory import stale_numbers
from harness.oracles.before import Before


def table_rows(before: Before, slot: int) -> list[list[int]]:
    """A request's row in the table of every group."""
    return [before.table_row(group, slot) for group in range(len(before.layout.groups))]


def make_batch(
    before: Before, num_requests: int, requests: Sequence[HostRequest], columns: dict[str, int], accepted: Sequence[int]
) -> HostBatch:
    """A batch whose accepted counts past `accepted` are stale."""
    import torch

    counts = stale_numbers(before.payload_seed, 0, before.layout.table_rows, 1, before.layout.num_spec + 1)
    counts[: len(accepted)] = np.array(accepted, dtype=np.int32)
    return HostBatch(num_requests, requests, columns, torch.from_numpy(counts))


def with_absent(batch: HostBatch, absent: Sequence[AbsentRequest], resumed: Sequence[int]) -> HostBatch:
    """The same batch with requests that are not in it, named after its own, and the batch rows of resumed ones."""
    rows = len(batch.requests)
    gone = {
        absence: [request_name(rows + i) for i, request in enumerate(absent) if request.absence == absence]
        for absence in ("finished", "preempted")
    }
    names = [request_name(i) for i in resumed]
    return replace(batch, finished=gone["finished"], preempted=gone["preempted"], resumed=names)


def remembered_columns(batch: HostBatch, requests: int) -> NDArray[np.int64]:
    """The column of each request, those of the batch first."""
    return np.array([batch.columns.get(request_name(i), NO_COLUMN) for i in range(requests)], dtype=np.int64)


def fill_staged(bound: Bound, before: Before) -> None:
    """Give views and mirrors different numbers, so that any entry copied in excess is visible."""
    import torch

    seed, index = before.payload_seed, before.index
    for number, view in enumerate(bound.staged.values()):
        view.host[:] = stale_numbers(seed, 2 * number + 8 * index, len(view.host), 100, 2**20)
        mirror = stale_numbers(seed, 2 * number + 8 * index + 1, len(view.host), 2**21, 2**22)
        view.device.copy_(torch.from_numpy(mirror))


def staged_results(bound: Bound) -> Results:
    """Views and mirrors of everything staged."""
    results: Results = {}
    for name, view in bound.staged.items():
        results[staged_name(HOST, name)] = view.host.astype(np.int64)
        results[staged_name(DEVICE, name)] = as_numbers(view.device)
    return results


def accepted_results(host: HostBatch) -> Results:
    """The accepted counts on the host."""
    return {ACCEPTED_ON_HOST: as_numbers(host.accepted)}

"""The loop is how a runner moved states before there were fused kernels: it waits for the accepted counts, decides for
each request on the host, and lets the device do a list of copies.

It is here to be compared with its replacement. The decisions are those of docs/domain.md, section 3.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from harness.bench.pools import BoundStep
from harness.kernels.targets.arguments import HostBatch, HostRequest, StateMove


def host_batch(bound: BoundStep) -> HostBatch:
    """The requests of a V1 step as a runner keeps them on the host."""
    arrays = {name: values.tolist() for name, values in bound.arrays.items()}
    tables = [table.tolist() for table in bound.tables]
    n = bound.step.step.requests
    requests = [
        HostRequest(
            name=f"request {row}",
            computed=arrays["computed"][row],
            scheduled=arrays["scheduled"][row],
            draft=arrays["draft"][row],
            blocks=[table[row] for table in tables],
        )
        for row in range(n)
    ]
    columns = {request.name: arrays["state_column"][row] for row, request in enumerate(requests)}
    accepted = torch.zeros(bound.arrays["accepted"].numel(), dtype=torch.int32)
    return HostBatch(n, requests, columns, accepted.pin_memory() if bound.arrays["accepted"].is_cuda else accepted)


def fused_step(bound: BoundStep) -> Callable[[], object]:
    """What a V1 runner does after a step today: it stages its numbers, launches, and starts the copy of the counts back
    to the host."""
    batch = host_batch(bound)

    def run() -> None:
        bound.bound.stage(batch)
        bound.bound.postprocess_entry(batch, bound.arrays["accepted"])

    return run


def looped_step(bound: BoundStep) -> Callable[[], object]:
    """What a V1 runner did after a step before there were fused kernels."""
    batch = host_batch(bound)
    block_size = bound.step.pool.layout.block_size

    def run() -> None:
        counts = bound.arrays["accepted"][: batch.num_requests].tolist()
        moves = []
        for request, count in zip(batch.requests, counts, strict=True):
            running = request.computed + request.scheduled - request.draft
            blocks = (running + count - 1) // block_size
            bias = blocks * block_size - running
            column = batch.columns[request.name]
            if bias > 0 or (bias == 0 and column != blocks - 1):
                moves.append(StateMove(request, column, blocks - 1, bias))
        if moves:
            bound.bound.scalar_copy(batch, moves)

    return run

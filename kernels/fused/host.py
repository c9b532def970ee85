"""The host side of the V1 runner: it keeps requests' columns, stages numbers for the kernels, and has a path without
them: a list of copies that it computes itself (docs/domain.md, section 7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Protocol

import torch

from harness.kernels.fused.batch_copy import batch_copy_kernel
from harness.kernels.fused.columns import FRESH, advance, forget
from harness.kernels.fused.context import BoundState, FusedContext, signed
from harness.kernels.host_buffer import HostBuffer

LANES = 1024
"""Words of a batch copy that a program moves at once."""

STAGED = ("state_column", "scheduled", "computed", "draft", "source_column", "bias")

MakeBuffer = Callable[[str, int, torch.dtype], HostBuffer]


class MissingColumn(ValueError):
    """A request is staged although preprocess has given it no column."""


class HostRequest(Protocol):
    """What the host knows about a request. `blocks[group]` is its row of the group's block table."""

    @property
    def name(self) -> str: ...
    @property
    def computed(self) -> int: ...
    @property
    def scheduled(self) -> int: ...
    @property
    def draft(self) -> int: ...
    @property
    def blocks(self) -> Sequence[Sequence[int]]: ...


class HostSide:
    """`states[group]` are those of the context; `rows` is the maximum number of requests of a batch."""

    def __init__(
        self,
        context: FusedContext,
        states: Sequence[Sequence[BoundState]],
        *,
        conv_layout: str,
        block_size: int,
        rows: int,
        make_buffer: MakeBuffer,
    ) -> None:
        self._context = context
        self._states = states
        self._conv_layout = conv_layout
        self._block_size = block_size
        self.staged: Mapping[str, HostBuffer] = {name: make_buffer(name, rows, torch.int32) for name in STAGED}
        pieces = rows * sum(map(len, states))
        self._sources = make_buffer("copy sources", pieces, torch.int64)
        self._destinations = make_buffer("copy destinations", pieces, torch.int64)
        self._sizes = make_buffer("copy sizes", pieces, torch.int32)

    def stage(self, requests: Sequence[HostRequest], num_requests: int, columns: Mapping[str, int]) -> None:
        """Stage the first `num_requests` requests for `postprocess`.

        Raises MissingColumn, before anything is sent, if one of them has no column.
        """
        views = [self.staged[name].np for name in STAGED[:4]]
        for row, request in enumerate(requests[:num_requests]):
            column = columns.get(request.name)
            if column is None:
                raise MissingColumn(f"{request.name} has no column: preprocess comes before stage")
            numbers = column, request.scheduled, request.computed, request.draft
            for view, number in zip(views, numbers, strict=True):
                view[row] = number
        for name in STAGED[:4]:
            self.staged[name].copy_to_gpu(num_requests)

    def postprocess(self, num_requests: int, accepted: torch.Tensor, accepted_on_host: torch.Tensor) -> None:
        """Postprocess a staged batch, and copy its accepted counts to the host without waiting.

        The first use of a context that is not yet bound binds it.
        """
        self._context.bind()
        staged = self.staged
        self._context.postprocess(
            num_requests,
            accepted,
            staged["state_column"].gpu,
            staged["scheduled"].gpu,
            staged["computed"].gpu,
            staged["draft"].gpu,
        )
        accepted_on_host[:num_requests].copy_(self._context.accepted_out[:num_requests], non_blocking=True)

    def preprocess(
        self,
        requests: Sequence[HostRequest],
        columns: MutableMapping[str, int],
        accepted: torch.Tensor,
        *,
        finished: Iterable[str],
        preempted: Iterable[str],
        resumed: Iterable[str],
        fused: bool,
    ) -> None:
        """Give all requests of a batch their columns, and move the states whose column changes.

        `accepted`, on the host by batch row, becomes 1 where a state moves. Raises ValueError if such a count is below
        1, or if the scalar path cannot express a move.
        """
        forget(columns, (*finished, *preempted, *resumed))
        moves = []
        counts = accepted.numpy()
        views = {name: self.staged[name].np for name in ("state_column", "source_column", "bias")}
        for row, request in enumerate(requests):
            source, destination = advance(columns, request.name, request.computed, request.scheduled, self._block_size)
            bias = 0
            if source in (FRESH, destination):
                source = FRESH
            else:
                bias = int(counts[row]) - 1
                if bias < 0:
                    raise ValueError(f"{request.name} moves, but its accepted count is {counts[row]}")
                counts[row] = 1
                moves.append((request, source, destination, bias))
            if fused:
                views["state_column"][row] = destination
                views["source_column"][row] = source
                views["bias"][row] = bias
        if not fused:
            self.copy(moves)
            return
        for name in views:
            self.staged[name].copy_to_gpu(len(requests))
        self._context.precopy(
            len(requests), self.staged["source_column"].gpu, self.staged["state_column"].gpu, self.staged["bias"].gpu
        )

    def copy(self, moves: Sequence[tuple[HostRequest, int, int, int]]) -> None:
        """Move states (request, source column, destination column, bias) by one list of copies.

        Raises ValueError for a move that is not a list of contiguous pieces.
        """
        count = 0
        for request, source, destination, bias in moves:
            for group, members in enumerate(self._states):
                blocks = request.blocks[group]
                for state in members:
                    start, end, size = self._piece(state, blocks, source, destination, bias)
                    self._sources.np[count], self._destinations.np[count] = signed(start), signed(end)
                    self._sizes.np[count] = size
                    count += 1
        if count == 0:
            return
        arrays = [buffer.copy_to_gpu(count) for buffer in (self._sources, self._destinations, self._sizes)]
        batch_copy_kernel[(count, 1, 1)](*arrays, LANES=LANES)

    def _piece(
        self, state: BoundState, blocks: Sequence[int], source: int, destination: int, bias: int
    ) -> tuple[int, int, int]:
        """Addresses and bytes of one copy."""
        tensor = state.tensor
        item = tensor.element_size()
        base, stride = tensor.data_ptr(), tensor.stride(0) * item
        to = base + blocks[destination] * stride
        if state.kind == "temporal":
            return base + blocks[source + bias] * stride, to, tensor[0].numel() * item
        start = base + blocks[source] * stride
        if self._conv_layout == "SD":
            token = tensor.size(2) * item
            return start + bias * token, to, max(tensor.size(1) - bias, 0) * token
        rows, window = tensor.size(1), tensor.size(2)
        if bias or (rows > 1 and tensor.stride(1) != window):
            raise ValueError("the scalar path copies whole DS windows without gaps between rows")
        return start, to, rows * window * item


__all__ = ["BoundState", "FusedContext", "HostSide", "MissingColumn"]

"""A simulator runs a few scheduler steps of synthetic requests, so that production can meet everything it returns.

It models what determines columns and block ids in vLLM's align mode (docs/domain.md, sections 4, 6 and 8): chunked
prefill that ends on block boundaries, decode with drafts and partial acceptance, prefix hits that share a source
block, retirement of old columns, relocation of speculative blocks, preemption and resumption, rows of the
persistent batch (V1) or request slots (V2). Tokens have no values: a prefix is identified by its name and length.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from harness.case import FRESH, Runner, landing
from harness.generators.block_pool import BlockPool, Cell
from harness.generators.draw import Draw


class Traffic(NamedTuple):
    """The properties of the simulated deployment."""

    runner: Runner
    block_size: int
    num_spec: int
    groups: int
    columns: int
    """Columns of a block-table row."""
    slots: tuple[int, ...]
    """Request slots (V2) in the order in which they are assigned; V1 uses only their number."""
    chunk: int
    """Maximum tokens of one prefill chunk."""
    drop_last_boundary: bool
    """The prefix cache drops its last block (some drafters need that), so prefill stops one block earlier."""
    dense: bool
    """Every block boundary stays in the prefix cache, not only the last one of a prompt."""


class Scheduled(NamedTuple):
    """One request's part in a step; counts in tokens, `accepted` is the result of the step."""

    slot: int
    computed: int
    scheduled: int
    draft: int
    accepted: int
    previous_column: int
    """Column of the running state before the step, or FRESH."""
    column: int
    bias: int
    """Accepted tokens of the previous step, less one: the bias of precopy."""
    remembered: bool = True
    """Whether the runner remembers `previous_column`; otherwise it follows from `computed`."""
    resumed: bool = False
    """Whether the request starts again after preemption."""
    samples: bool = True
    """Whether the step ends with sampled tokens: a chunk inside a prompt does not."""

    @property
    def running(self) -> int:
        """Tokens up to and including the first one, which is always kept (docs/domain.md, section 3)."""
        return self.computed + self.scheduled - self.draft

    @property
    def precopies(self) -> bool:
        return self.previous_column not in (FRESH, self.column)


class SimulatedRequest:
    """One synthetic request. `stream` names the text that its first `shared` tokens come from."""

    def __init__(self, name: int, stream: int, shared: int, prompt: int, limit: int, junction: int) -> None:
        self.name = name
        self.stream = stream
        self.shared = shared
        self.prompt = prompt
        self.limit = limit
        self.junction = junction
        self.tokens = prompt
        self.slot = -1
        self.preempted = False
        self.forget()

    def forget(self) -> None:
        """Lose all computed state, as in a preemption."""
        self.computed = 0
        self.accepted = 1
        self.column: int | None = None
        self.cells: list[Cell] = []
        self.worker: list[Cell] = []
        self.started = False
        self.last_column: int | None = None
        self.registered = 0
        self.retired = 0

    def key(self, blocks: int, block_size: int) -> Hashable:
        """Name of the state after the first `blocks` blocks of tokens."""
        return (self.stream if blocks * block_size <= self.shared else ~self.name, blocks)


class Simulator:
    """Requests, a block pool and worker tables. `rows[slot]` are the cells that the kernels would see in that row."""

    def __init__(self, draw: Draw, traffic: Traffic, pool: BlockPool) -> None:
        self._draw = draw
        self._traffic = traffic
        self._null: Cell = (0,) * traffic.groups
        self.pool = pool
        self.waiting: list[SimulatedRequest] = []
        self.running: list[SimulatedRequest] = []
        self.rows: dict[int, list[Cell]] = {}
        self._batch: list[SimulatedRequest | None] = []
        self._free_slots = list(traffic.slots)
        self._preempted = False

    def step(self) -> list[Scheduled]:
        """Schedule, run and commit one step; its requests in batch order. Empty if nothing could be scheduled."""
        chosen: list[tuple[SimulatedRequest, int, int]] = []
        self._schedule_running(chosen)
        if not self._preempted:  # blocks taken from one request are not given to another in the same step
            self._schedule_waiting(chosen)
        self._preempted = False
        self._place_rows([request for request, _, _ in chosen])
        order = {id(request): row for row, request in enumerate(self._batch)}
        chosen.sort(key=lambda item: order[id(item[0])])
        return [self._run(*item) for item in chosen]

    def preempt(self, request: SimulatedRequest) -> None:
        """Take all blocks away from a running request; it waits, first in line, and starts again later."""
        self.running.remove(request)
        self._leave(request)
        request.forget()
        request.preempted = True
        self.waiting.insert(0, request)
        self._preempted = True

    # Scheduling

    def _schedule_running(self, chosen: list[tuple[SimulatedRequest, int, int]]) -> None:
        i = 0
        while i < len(self.running):
            request = self.running[i]
            scheduled, draft = self._wanted(request)
            if scheduled:
                while not self._allocate(request, request.computed + scheduled):
                    victim = self.running[-1]
                    self.preempt(victim)
                    if victim is request:
                        return
                chosen.append((request, scheduled, draft))
            i += 1

    def _schedule_waiting(self, chosen: list[tuple[SimulatedRequest, int, int]]) -> None:
        while self.waiting and self._free_slots:
            request = self.waiting[0]
            hit = self._hit(request)
            scheduled, draft = self._wanted(request)
            if not scheduled or not self._allocate(request, request.computed + scheduled):
                if hit is not None:
                    self.pool.release(hit)
                request.forget()
                return
            self.waiting.pop(0)
            self.running.append(request)
            request.slot = self._free_slots.pop(0)
            chosen.append((request, scheduled, draft))

    def _hit(self, request: SimulatedRequest) -> Cell | None:
        """Start a request from the longest cached prefix: null columns, then the shared block, for reading only."""
        size = self._traffic.block_size
        for blocks in range((request.tokens - 1) // size, 0, -1):
            cell = self.pool.find(request.key(blocks, size))
            if cell is not None:
                self.pool.hold(cell)
                request.cells = [self._null] * (blocks - 1) + [cell]
                request.computed = blocks * size
                request.registered = blocks
                return cell
        return None

    def _wanted(self, request: SimulatedRequest) -> tuple[int, int]:
        """Tokens to schedule and how many of them are drafts."""
        spec = self._traffic.num_spec
        if request.tokens == 1 and spec and self._draw.boolean():  # since 0.33: padded with placeholder drafts
            return 1 + spec, spec
        end = max(request.prompt, request.tokens - 1)
        if request.computed < end:
            return self._chunk(request, end), 0
        if not request.started:  # resumed: drafts are lost in a preemption
            return 1, 0
        draft = self._traffic.num_spec
        if draft:
            how = self._draw.integer(0, 4)
            draft = draft if how < 3 else self._draw.integer(0, draft) if how == 3 else 0
        return 1 + draft, draft

    def _chunk(self, request: SimulatedRequest, prefill_end: int) -> int:
        """Length of a prefill chunk (docs/domain.md, section 6): it ends on a block boundary, with exceptions."""
        traffic, size, start = self._traffic, self._traffic.block_size, request.computed
        most = traffic.chunk
        if start and self._draw.boolean(0.2):  # other requests have taken a part of the step's tokens
            most = self._draw.integer(1, most)
        end = min(request.tokens, start + most)
        if end < prefill_end and (end // size * size > start or size <= traffic.chunk):
            end = end // size * size
        last = (request.tokens - 1) // size * size - (size if traffic.drop_last_boundary else 0)
        stops = [last, start + (request.junction - start) // size * size]
        if start % size:
            stops.append(start - start % size + size)
        return max(0, min([stop for stop in stops if start < stop < end], default=end) - start)

    # Blocks

    def _allocate(self, request: SimulatedRequest, total: int) -> bool:
        """Give a request the columns for `total` tokens and its speculative ones. False if there are too few blocks."""
        size, spec = self._traffic.block_size, self._traffic.num_spec
        self._retire(request)
        cells = request.cells
        before = len(cells)
        needed = -(-total // size) + spec
        if needed > before:
            running = needed - spec - 1
            moving = range(before - spec, min(before, running)) if request.started else range(0)
            new = needed - max(before, running) - len(moving)
            if not self.pool.can_take(new):
                return False
            if request.started:
                request.last_column = before - 1 - spec
            elif before:
                request.last_column = before - 1
            cells.extend([self._null] * (running - before))
            for column in moving:  # scratch blocks that the jump leaves behind move to the right
                cells.append(cells[column])
                cells[column] = self._null
            cells.extend(self.pool.take(new))
        request.started = True
        # The worker only appends: columns retired or relocated above keep their old ids there.
        request.worker.extend(cells[len(request.worker) :])
        return True

    def _retire(self, request: SimulatedRequest) -> None:
        """Give back the columns before the running state, and the one that the last move read."""
        size = self._traffic.block_size
        cells, null = request.cells, self._null
        end = min((request.computed - 1) // size, len(cells))
        if end > request.retired:
            for column in range(end - 1, request.retired - 1, -1):
                self._drop(cells, column, null)
            request.retired = end
        last = request.last_column
        if last is not None and last < -(-request.computed // size) - 1:
            self._drop(cells, last, null)

    def _drop(self, cells: list[Cell], column: int, null: Cell) -> None:
        if cells[column] is not null:
            self.pool.release(cells[column])
            cells[column] = null

    def _leave(self, request: SimulatedRequest) -> None:
        for cell in reversed(request.cells):
            self.pool.release(cell)
        self._free_slots.insert(0, request.slot)

    # Rows of the worker's tables

    def _place_rows(self, requests: list[SimulatedRequest]) -> None:
        """Order the batch and write the rows of its requests; older cells further right stay."""
        if self._traffic.runner == "V1":
            self._condense(requests)
            for row, request in enumerate(requests):
                request.slot = row
        elif self._draw.boolean(0.5):
            requests = self._draw.permutation(requests)
            self._batch = list(requests)
        else:
            self._batch = list(requests)
        for request in requests:
            cells = self.rows.setdefault(request.slot, [])
            cells[: len(request.worker)] = request.worker

    def _condense(self, requests: list[SimulatedRequest]) -> None:
        """V1: other requests get the rows of those that are not scheduled; the last rows close gaps that remain.

        Leaves the batch in `_batch` and puts `requests` into the same order.
        """
        members = {id(request) for request in requests}
        batch = [request if id(request) in members else None for request in self._batch]
        known = {id(request) for request in batch}
        arriving = [request for request in requests if id(request) not in known]
        for row, held in enumerate(batch):
            if held is None and arriving:
                batch[row] = arriving.pop(0)
        batch.extend(arriving)
        for row in range(len(batch)):
            while batch and batch[-1] is None:
                batch.pop()
            if row < len(batch) and batch[row] is None:
                batch[row] = batch.pop()
        if len(batch) > 1 and self._draw.boolean(0.3):  # decodes move to the front
            i = self._draw.integer(1, len(batch) - 1)
            batch[0], batch[i] = batch[i], batch[0]
        self._batch = batch
        requests[:] = [request for request in batch if request is not None]

    # Running

    def _run(self, request: SimulatedRequest, scheduled: int, draft: int) -> Scheduled:
        size = self._traffic.block_size
        computed = request.computed
        previous = (computed - 1) // size if request.column is None else request.column
        column = -(-(computed + scheduled) // size) - 1
        accepted = self._accept(computed, draft if computed else 0)
        step = Scheduled(
            request.slot,
            computed,
            scheduled,
            draft,
            accepted,
            previous,
            column,
            bias=request.accepted - 1,
            remembered=request.column is not None,
            resumed=request.preempted,
            samples=computed + scheduled >= request.tokens,
        )
        request.preempted = False
        request.column = column
        request.accepted = accepted
        request.computed = step.running + accepted - 1
        landed = landing(step.running, accepted, size)
        if landed is not None and landed.column == column:
            request.accepted = 1  # postprocess of this step leaves the state at the end of the block
        if request.computed >= request.tokens:
            request.tokens = request.computed + 1
        self._register(request)
        if request.computed >= request.limit:
            self.running.remove(request)
            self._leave(request)
        return step

    def _accept(self, computed: int, draft: int) -> int:
        """Tokens kept: often all, no draft, or just enough to reach or pass a block boundary."""
        how = self._draw.integer(0, 5)
        if how == 0 or draft == 0:
            return 1
        if how == 1:
            return draft + 1
        to_boundary = -computed % self._traffic.block_size or self._traffic.block_size
        if how < 5 and to_boundary <= draft + 1:
            return self._draw.integer(to_boundary, draft + 1) if how == 4 else to_boundary
        return self._draw.integer(1, draft + 1)

    def _register(self, request: SimulatedRequest) -> None:
        """Put the states at the block boundaries reached so far into the prefix cache."""
        size = self._traffic.block_size
        if request.computed // size <= request.registered:
            return
        for blocks in range(request.registered + 1, request.computed // size + 1):
            cell = request.cells[blocks - 1]
            if cell is not self._null and (
                self._traffic.dense or blocks == (request.prompt - 1) // size or blocks == request.junction // size
            ):
                self.pool.register(request.key(blocks, size), cell)
        request.registered = request.computed // size

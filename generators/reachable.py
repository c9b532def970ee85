"""A reachable case is the last of a few simulated scheduler steps, as its kernels would see it, or several of them."""

from __future__ import annotations

from collections.abc import Sequence

from harness.case import Operation, Runner
from harness.generators.block_pool import BlockPool
from harness.generators.draw import Draw
from harness.generators.kinds.kind import AnyDrawnKind, Deployment, KindName, ProgramKind, ReachableBatch
from harness.generators.kinds.migration import POSTPROCESS, PRECOPY
from harness.generators.kinds.registry import KINDS
from harness.generators.layouts import LayoutChoice
from harness.generators.parts import Parts
from harness.generators.programs import tables_of
from harness.generators.simulator import Scheduled, SimulatedRequest, Simulator, Traffic

MOST_STEPS = 14
PATIENCE = 10
"""Maximum number of steps to wait for the more interesting moves."""


def draw_reachable(draw: Draw, plan: LayoutChoice, operations: Sequence[KindName]) -> Parts:
    """Simulate until a step does something, and return that step's tables and operations; or those of several steps."""
    kinds = _draw_kinds(draw, operations, plan.layout.num_spec)
    runners = kinds.runners if isinstance(kinds, ProgramKind) else kinds[0].runners
    traffic = _draw_traffic(draw, plan, draw.choice(runners))
    simulator = Simulator(draw, traffic, _draw_pool(draw, plan))
    arrivals = _draw_requests(draw, plan, traffic)
    if isinstance(kinds, ProgramKind):
        return kinds.reachable(Deployment(draw, plan.layout, traffic.runner, simulator, arrivals))
    step = _run(draw, simulator, arrivals, kinds, traffic.block_size)
    batch = ReachableBatch(draw, plan.layout, traffic.runner, step)
    program: tuple[Operation, ...] = tuple([kind.reachable(batch) for kind in kinds])
    return Parts(tables_of(simulator.rows, traffic.groups), tuple(simulator.pool.owners), program)


def _draw_kinds(draw: Draw, operations: Sequence[KindName], num_spec: int) -> ProgramKind | tuple[AnyDrawnKind, ...]:
    """A kind of program, or operations of one step, in the order in which a step runs them.

    Without drafts postprocess moves nothing, so it is drawn less often then.
    """
    kind = KINDS[draw.weighted([(name, KINDS[name].weight) for name in operations])]
    if isinstance(kind, ProgramKind):
        return kind
    moving = (PRECOPY, POSTPROCESS)
    if kind in moving and all(one.name in operations for one in moving):
        if draw.boolean(0.15):
            return moving
        if num_spec == 0 and draw.boolean(0.7):
            return (PRECOPY,)
    return (kind,)


def _draw_traffic(draw: Draw, plan: LayoutChoice, runner: Runner) -> Traffic:
    layout = plan.layout
    size, rows = layout.block_size, layout.table_rows
    count = plan.draw_most_requests(draw)
    slots: tuple[int, ...] = tuple(range(count))
    if runner == "V2":
        reach = rows if draw.boolean(0.1) else min(rows, count + draw.integer(0, 4))
        slots = tuple(draw.sample(range(reach), count))
    chunk = size * draw.weighted(((1, 4), (2, 8), (3, 6), (6, 3), (24, 1))) + draw.integer(0, size - 1)
    if draw.boolean(0.15):  # a block longer than a chunk can be
        chunk = draw.boundary(-(-size // 4), size)
    return Traffic(
        runner=runner,
        block_size=size,
        num_spec=layout.num_spec,
        groups=len(layout.groups),
        columns=layout.table_columns,
        slots=slots,
        chunk=chunk,
        drop_last_boundary=draw.boolean(0.3),
        dense=draw.boolean(0.6),
    )


def _draw_pool(draw: Draw, plan: LayoutChoice) -> BlockPool:
    blocks = plan.layout.num_blocks
    order: Sequence[int] = range(1, blocks)
    if blocks <= 40 and draw.boolean(0.3):
        order = draw.permutation(order)
    elif draw.boolean(0.5):  # as after a while: all blocks are in the pool, in another order
        start = draw.integer(1, blocks - 1)
        order = (*range(blocks - 1, start - 1, -1), *range(1, start))
    return BlockPool(order, len(plan.layout.groups))


def _draw_requests(draw: Draw, plan: LayoutChoice, traffic: Traffic) -> list[tuple[int, SimulatedRequest]]:
    """Requests with the step in which each arrives, earliest first."""
    size, spec = traffic.block_size, traffic.num_spec
    most = (traffic.columns - spec) * size - spec
    count = draw.boundary(1, len(traffic.slots))
    deep = draw.boolean(0.2 if traffic.chunk > 20 * size else 0.03)
    stem = size * draw.integer(1, 3) + draw.integer(0, 1)
    arrivals = []
    for name in range(count + draw.integer(0, 3)):
        blocks = (
            draw.integer(1, traffic.columns - spec - 1) if deep else draw.weighted(((1, 4), (2, 4), (3, 2), (5, 1)))
        )
        # Most prompts end where the first decode steps reach the end of the block; the others anywhere.
        into = size - draw.integer(1, min(size, spec + 2)) if draw.boolean(0.75) else draw.boundary(0, size - 1)
        prompt = min(most - 1, max(1, (blocks - 1) * size + into))
        shared = min(stem, prompt) if draw.boolean(0.6) else 0
        limit = min(most, prompt + draw.weighted(((min(size * 3, 4 * spec + 4), 5), (1, 1), (size * 3, 2))))
        junction = size * draw.integer(1, 3) if draw.boolean(0.1) else 0
        arrival = draw.weighted(((0, 5), (1, 2), (2, 2), (3, 1))) if name else 0
        arrivals.append((arrival, SimulatedRequest(name, 0, shared, prompt, limit, junction)))
    arrivals.sort(key=lambda item: item[0])
    return arrivals


def _run(
    draw: Draw,
    simulator: Simulator,
    arrivals: list[tuple[int, SimulatedRequest]],
    kinds: Sequence[AnyDrawnKind],
    block_size: int,
) -> list[Scheduled]:
    """Run steps until one of the operations has something to move (or, sometimes, regardless); returns that step.

    Most first moves are those of a prefill, which have no bias, so often a move of a decode is awaited.
    """
    least = draw.weighted(((0, 3), (1, 2), (3, 2), (5, 1)))
    indifferent = draw.boolean(0.05)
    patience = PATIENCE if draw.boolean(0.4) else 0
    last: list[Scheduled] = []
    for number in range(MOST_STEPS):
        while arrivals and arrivals[0][0] <= number:
            simulator.waiting.append(arrivals.pop(0)[1])
        if simulator.running and draw.boolean(0.05):
            simulator.preempt(simulator.running[-1])
        step = simulator.step()
        if step:
            last = step
            decoding = number < patience
            if number >= least and (indifferent or any(_moves(row, kinds, block_size, decoding) for row in step)):
                break
        elif not arrivals and not simulator.waiting and not simulator.running:
            break
    return last


def _moves(row: Scheduled, kinds: Sequence[AnyDrawnKind], block_size: int, decoding: bool) -> bool:
    """Whether one of the operations has something to do for the row; if `decoding`, something that only decodes do."""
    return any(kind.moves(row, block_size, decoding) for kind in kinds)

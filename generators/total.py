"""A total case is anything the kernels are specified for (docs/domain.md, sections 3 to 5), likely or not.

Far columns, an accepted count of 0, tiny blocks, biases past the window, columns that alias one physical block, the
null block as a source, stale mappings. Most rows move state: a launch in which no request crosses a block boundary
tests an early exit and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.case import SKIP_ROW, Runner
from harness.generators.board import Board
from harness.generators.draw import Draw
from harness.generators.kinds.kind import KindName, TotalBatch
from harness.generators.kinds.registry import KINDS
from harness.generators.layouts import LayoutChoice
from harness.generators.parts import Parts
from harness.generators.total_rows import TotalRows


def draw_total(draw: Draw, plan: LayoutChoice, operations: Sequence[KindName]) -> Parts:
    """A program of one or a few launches over the same tables; each launch is valid alone."""
    board = Board(draw, plan.layout.num_blocks, len(plan.layout.groups))
    rows = TotalRows(draw, plan.layout, board)
    program = []
    for _ in range(draw.weighted(((1, 8), (2, 2), (3, 1)))):
        board.begin_launch()
        kind = KINDS[draw.weighted([(name, KINDS[name].weight) for name in operations])]
        runner = draw.choice(kind.total_runners)
        slots = _draw_slots(draw, plan, runner)
        program.append(kind.total(TotalBatch(draw, plan.layout, runner, slots, rows)))
    return Parts(tables=board.finish(), owners=tuple(board.owners), program=tuple(program))


def _draw_slots(draw: Draw, plan: LayoutChoice, runner: Runner) -> list[int]:
    rows = plan.layout.table_rows
    most = plan.draw_most_requests(draw)
    count = 0 if draw.boolean(0.03) else draw.boundary(1, most)
    if runner == "V1":
        return list(range(count))
    reach = rows if rows <= 16 or draw.boolean(0.1) else min(rows, count + draw.integer(0, 6))
    slots = draw.sample(range(reach), count)
    if draw.boolean(0.3):
        slots = [SKIP_ROW if draw.boolean(0.3) else slot for slot in slots]
    return slots

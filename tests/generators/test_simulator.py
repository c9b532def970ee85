"""The rules of docs/domain.md, section 6, for reachable cases hold for the simulated ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from harness.case import FRESH, SKIP_ROW, Case, Postprocess, Precopy
from harness.generators.block_pool import BlockPool
from harness.generators.cases import draw_case, draw_layout
from harness.generators.draw import RandomDraw
from harness.generators.layouts import LayoutChoice
from harness.generators.simulator import SimulatedRequest, Simulator, Traffic


def reachable(operation: str, count: int = 1500) -> Iterator[Case]:
    for index in range(count):
        if index % 4 == 0:
            plan = draw_layout(RandomDraw(f"6/layout/{index // 4}"), "reachable", "full")
        yield draw_case(RandomDraw(f"6/case/{index}"), plan, "reachable", (operation,), "full")


def traffic(**changes: object) -> Traffic:
    usual = Traffic(
        runner="V2",
        block_size=4,
        num_spec=2,
        groups=2,
        columns=16,
        slots=(5, 3),
        chunk=16,
        drop_last_boundary=False,
        dense=True,
    )
    return usual._replace(**changes)


def test_blocks_hold_a_step() -> None:
    for case in reachable("precopy", 300):
        assert case.layout.block_size >= 1 + case.layout.num_spec


def test_postprocess() -> None:
    seen: Counter = Counter()
    for case in reachable("postprocess"):
        size = case.layout.block_size
        for row in case.program[0].rows:
            running = row.computed + row.scheduled - row.draft
            new = running + row.accepted - 1
            aligned = new // size * size
            destination, bias = aligned // size - 1, aligned - running
            assert 1 <= row.accepted <= row.draft + 1
            assert row.draft <= case.layout.num_spec
            assert row.state_column == -(-(row.computed + row.scheduled) // size) - 1
            if row.draft:
                assert row.scheduled == row.draft + 1
            if aligned < running:
                seen["inside"] += 1
                continue
            assert destination <= row.state_column
            at_boundary = row.accepted == row.draft + 1 and new % size == 0
            assert (destination == row.state_column and bias > 0) == (at_boundary and row.draft > 0)
            if destination == row.state_column:
                assert bias == row.draft
                seen["same block", bias > 0] += 1
            else:
                assert destination == row.state_column - 1
                seen["to the left", bias > 0] += 1
            if row.draft == 0:  # nothing to move
                assert bias == 0
                assert destination == row.state_column
    assert min(seen.values()) > 50
    assert len(seen) == 5


def test_precopy() -> None:
    seen: Counter = Counter()
    for case in reachable("precopy"):
        operation = case.program[0]
        for row in operation.rows:
            assert row.slot != SKIP_ROW  # the kernel before it does not produce such rows
            assert 0 <= row.bias <= case.layout.num_spec
            distance = row.destination_column - row.source_column
            if row.source_column == FRESH:
                assert row.bias == 0
                seen["fresh"] += 1
            elif distance == 0:
                assert operation.runner == "V2"
                seen["same column"] += 1
            elif distance < 0:
                assert distance == -1
                seen["to the left"] += 1
            elif distance > 1:
                assert row.bias == 0  # only prefill goes so far
                seen["several blocks"] += 1
            else:
                seen["next block", row.bias > 0] += 1
    assert min(seen.values()) > 10
    assert len(seen) == 6


def run(simulator: Simulator, requests: list[SimulatedRequest], steps: int) -> list:
    simulator.waiting.extend(requests)
    return [simulator.step() for _ in range(steps)]


def test_chunks_end_on_block_boundaries() -> None:
    settings = traffic(chunk=9)
    simulator = Simulator(RandomDraw("chunks"), settings, BlockPool(range(1, 60), 2))
    steps = run(simulator, [SimulatedRequest(0, 0, 0, prompt=22, limit=40, junction=0)], 6)
    ends = [row.computed + row.scheduled for step in steps for row in step if row.draft == 0]
    assert [end for end in ends if end <= 20] == [end for end in ends if end < 22]
    assert all(end % 4 == 0 for end in ends if end < 22)
    assert 22 in ends


def test_small_chunks_align_again_at_the_next_boundary() -> None:
    settings = traffic(block_size=16, chunk=5, num_spec=0, groups=1)
    simulator = Simulator(RandomDraw("small"), settings, BlockPool(range(1, 60), 1))
    steps = run(simulator, [SimulatedRequest(0, 0, 0, prompt=40, limit=60, junction=0)], 9)
    ends = [row.computed + row.scheduled for step in steps for row in step]
    assert {16, 32} <= set(ends)
    assert any(end % 16 for end in ends if end < 32)


def test_worker_rows_keep_stale_ids_and_relocated_blocks_show_twice() -> None:
    simulator = Simulator(RandomDraw("rows"), traffic(chunk=8), BlockPool(range(1, 60), 2))
    request = SimulatedRequest(0, 0, 0, prompt=17, limit=40, junction=0)
    run(simulator, [request], 3)
    assert request.slot == 5
    row = simulator.rows[5]
    assert request.worker == row
    # Two chunks of two blocks: a null column, the running state, two columns of scratch; then again.
    assert row[0] == (0, 0)
    assert row[2] == row[4] or row[2] == row[5]  # scratch blocks of the first chunk moved to the right
    assert request.cells[2] == (0, 0)  # the scheduler's own row has no such alias
    assert row[1] != (0, 0)
    assert request.cells[1] == (0, 0)  # retired there, stale here


def test_groups_never_share_a_block() -> None:
    simulator = Simulator(RandomDraw("groups"), traffic(), BlockPool(range(1, 60), 2))
    run(simulator, [SimulatedRequest(0, 0, 0, prompt=9, limit=40, junction=0)], 4)
    blocks = [set(column) - {0} for column in zip(*simulator.rows[5], strict=True)]
    assert not blocks[0] & blocks[1]


def test_prefix_hits_share_the_source_block() -> None:
    simulator = Simulator(RandomDraw("hits"), traffic(), BlockPool(range(1, 60), 2))
    first = SimulatedRequest(0, 0, 8, prompt=9, limit=40, junction=0)
    run(simulator, [first], 3)
    second = SimulatedRequest(1, 0, 8, prompt=12, limit=40, junction=0)
    simulator.waiting.append(second)
    step = simulator.step()
    rows = {row.slot: row for row in step}
    assert rows[second.slot].computed == 8
    assert rows[second.slot].previous_column == 1
    assert second.worker[0] == (0, 0)  # null head
    assert second.worker[1] == first.worker[1]
    assert second.worker[2] not in first.worker


def test_preempted_requests_come_back_from_the_cache_without_drafts() -> None:
    simulator = Simulator(RandomDraw("preempt"), traffic(slots=(5,)), BlockPool(range(1, 60), 2))
    request = SimulatedRequest(0, 0, 0, prompt=9, limit=40, junction=0)
    run(simulator, [request], 4)
    tokens = request.tokens
    simulator.preempt(request)
    steps = [simulator.step() for _ in range(2)]
    assert steps[0] == []  # not in the step that preempts
    (row,) = steps[1]
    assert row.draft == 0
    assert row.computed % 4 == 0
    assert 0 < row.computed < tokens
    assert row.bias == 0


def test_blocks_return_when_requests_end() -> None:
    pool = BlockPool(range(1, 12), 1)
    settings = traffic(groups=1, slots=(0, 1))
    simulator = Simulator(RandomDraw("end"), settings, pool)
    requests = [SimulatedRequest(name, 0, 0, prompt=9, limit=14, junction=0) for name in range(4)]
    run(simulator, requests, 60)
    assert not simulator.running
    assert not simulator.waiting
    assert pool.can_take(11)
    assert not pool.can_take(12)


@pytest.mark.parametrize("runner", ["V1", "V2"])
def test_v1_rows_are_batch_rows(runner: str) -> None:
    slots = set()
    for case in reachable("postprocess", 400):
        operation = case.program[0]
        if operation.runner == runner:
            slots.add(tuple(row.slot for row in operation.rows))
    in_order = [list(found) == list(range(len(found))) for found in slots]
    assert all(in_order) if runner == "V1" else not all(in_order)


def test_both_operations_of_one_step_agree() -> None:
    checked = 0
    for index in range(400):
        plan: LayoutChoice = draw_layout(RandomDraw(f"9/layout/{index}"), "reachable", "small")
        case = draw_case(RandomDraw(f"9/case/{index}"), plan, "reachable", ("postprocess", "precopy"), "small")
        if len(case.program) == 2:
            before, after = case.program
            assert isinstance(before, Precopy)
            assert isinstance(after, Postprocess)
            for first, last in zip(before.rows, after.rows, strict=True):
                assert last.slot in (first.slot, SKIP_ROW)
                assert last.state_column == first.destination_column
            checked += 1
    assert checked > 20

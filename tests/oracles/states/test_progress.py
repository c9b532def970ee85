"""When an engine stands still, and when it only seems so."""

from __future__ import annotations

import pytest

from harness.case.step_plan import PlannedRow
from harness.oracles.states.progress import MOST_EMPTY, Progress, Situation
from harness.oracles.states.violation import Violation, ViolationFound


def row(request: str, computed: int, scheduled: int, drafts: int = 0) -> PlannedRow:
    return PlannedRow(request, 0, computed, scheduled, drafts, False, 1, 0, True, 0, 0, (), ())


def watched() -> Progress:
    progress = Progress()
    progress.arrives("a", 1)
    progress.arrives("b", 2)
    return progress


def situation(paused: bool = False, in_flight: bool = False, **unfinished: int) -> Situation:
    return Situation(unfinished, paused, in_flight, budget=6, free_blocks=40, blocks=64)


def ended(
    progress: Progress, steps: int, rows: tuple[PlannedRow, ...], now: Situation, start: int = 1
) -> Violation | None:
    """Steps from `start` on, all alike; the violation that one of them ends in."""
    for number in range(start, start + steps):
        try:
            progress.step(number, rows, lambda: now)
        except ViolationFound as found:
            return found.violation
    return None


def test_no_row_for_some_steps_is_a_violation() -> None:
    progress = watched()
    assert ended(progress, 3, (row("a", 0, 8),), situation(a=20, b=9)) is None
    assert ended(progress, MOST_EMPTY - 1, (), situation(a=20, b=9), start=4) is None
    found = ended(progress, 1, (), situation(a=20, b=9), start=11)
    assert found is not None
    assert (found.kind, found.state, found.step, found.request) == ("no-progress", "rows", 11, "b")
    assert found.holds == (
        "no row for 8 steps; budget 6 tokens, 40 of 64 blocks are free; waiting: "
        "b since step 2, 0 of 9 tokens computed, a since step 4, 8 of 20 tokens computed"
    )


@pytest.mark.parametrize(
    "now",
    [situation(paused=True, a=20), situation(), situation(in_flight=True, a=20)],
    ids=["paused", "idle", "in flight"],
)
def test_steps_that_may_have_no_row(now: Situation) -> None:
    progress = watched()
    assert ended(progress, 100, (), now) is None
    assert ended(progress, MOST_EMPTY - 1, (), situation(a=20), start=101) is None, "none of them counts"


def test_a_step_that_gets_one_request_further_is_enough() -> None:
    progress = watched()
    for number in range(100):
        assert ended(progress, 7, (), situation(a=200, b=9), start=8 * number + 1) is None
        assert ended(progress, 1, (row("a", number, 1),), situation(a=200, b=9), start=8 * number + 8) is None


def test_drafts_are_not_computed_yet() -> None:
    progress = watched()
    assert ended(progress, 1, (row("a", 0, 4, drafts=3),), situation(a=4)) is None
    assert ended(progress, 1, (row("a", 1, 1),), situation(a=4), start=2) is None
    assert progress._furthest == {"a": 2}


def test_requests_that_push_each_other_out() -> None:
    """Both are computed from the start again and again. To do so once is no violation, one token at a time."""
    again = tuple(row(name, 0, 8) for name in "ab")
    progress = watched()
    assert ended(progress, 1, again, situation(a=20, b=20)) is None
    assert ended(progress, 48, again, situation(a=20, b=20), start=2) is None
    progress.thrown_away()
    assert ended(progress, 48, again, situation(a=20, b=20), start=50) is None
    found = ended(progress, 1, again, situation(a=20, b=20), start=98)
    assert found is not None
    assert (found.kind, found.state) == ("no-progress", "tokens")
    assert found.holds.startswith("nothing new for 49 steps; budget 6 tokens")

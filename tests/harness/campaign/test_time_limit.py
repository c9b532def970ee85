"""The time of a budget is shared by judging and sorting out: the command ends in time, whatever was found."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from harness.campaign import time_limit
from harness.campaign.settings import Settings
from harness.campaign.time_limit import TimeLimit
from harness.worker.losses import TimeUp, WorkerError

if TYPE_CHECKING:
    from tests.harness.campaign.conftest import NumberKit, Ran

Run = Callable[..., "Ran"]
Make = Callable[..., Settings]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the time."""
    now = [1000.0]
    monkeypatch.setattr(time_limit.time, "monotonic", lambda: now[0])

    def at(moment: float) -> None:
        now[0] = moment

    return at


@pytest.mark.usefixtures("clock")
def test_no_limit() -> None:
    limit = TimeLimit(None)
    assert (limit.end, limit.judging_until(0), limit.judging_until(9)) == (float("inf"),) * 3
    assert limit.sorting_until == float("inf")


@pytest.mark.usefixtures("clock")
def test_a_part_that_judges_nothing_sorts_as_long_as_it_likes() -> None:
    limit = TimeLimit(0.0, 900.0)
    assert limit.judging_until(0) == 0.0
    assert limit.sorting_until == float("inf")


@pytest.mark.usefixtures("clock")
def test_the_more_is_found_the_earlier_judging_ends() -> None:
    limit = TimeLimit(100.0, 990.0)  # loading took ten seconds
    assert limit.end == 1090.0
    ends = [limit.judging_until(findings) for findings in (0, 1, 3, 30, 3000)]
    assert ends == sorted(ends, reverse=True)
    assert 1080 < ends[0] < limit.sorting_until < limit.end
    assert ends[-1] > 1000 + 0.3 * 90
    unsorted = TimeLimit(100.0, 990.0, sorts=False)
    assert unsorted.judging_until(3000) == unsorted.judging_until(0) == ends[0]


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    ("seconds", "began", "end"),
    [(60.0, 995.0, 1055.0), (60.0, 900.0, 1015.0), (10.0, 900.0, 1005.0), (2.0, 900.0, 1002.0), (60.0, None, 1060.0)],
)
def test_a_target_that_loads_too_long_leaves_something(seconds: float, began: float | None, end: float) -> None:
    assert TimeLimit(seconds, began).end == end


@pytest.mark.parametrize("shrink", [True, False])
def test_a_campaign_ends_in_time(numbers: NumberKit, run: Run, settings: Make, shrink: bool) -> None:
    began = time.monotonic()
    ran = run(numbers.wrong(), settings(cases=None, seconds=6.0, began=began, shrink=shrink, workers=2))
    assert 3.0 < time.monotonic() - began < 8.0
    assert len(ran.found) == 2


def test_a_case_that_hangs_at_the_end_is_given_up(numbers: NumberKit, run: Run, settings: Make) -> None:
    """Its limit is longer than the rest of the budget."""
    subject, (first, _) = numbers.harmed("hang", limit=600.0)
    began = time.monotonic()
    ran = run(subject, settings(cases=None, seconds=4.0))
    assert time.monotonic() - began < 12.0, "with loading"
    assert ran.judged == list(range(first))
    assert ran.found == []


def test_sorting_out_ends_when_the_time_is_over(
    numbers: NumberKit, run: Run, settings: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each candidate takes seconds: the finding stays as small as it has become, and a line says what continues."""
    subject: Any = numbers.wrong()
    plan = type(subject).plan

    def slow(self: Any, *arguments: Any) -> Any:
        made = plan(self, *arguments)
        judge = made.judge

        def judged(case: Any) -> Any:
            time.sleep(1.5)
            return judge(case)

        made.judge = judged
        return made

    monkeypatch.setattr(type(subject), "plan", slow)
    began = time.monotonic()
    given = settings(cases=None, seconds=8.0, shrink=True)
    ran = run(subject, given)
    assert time.monotonic() - began < 16.0, "with loading"
    assert len(ran.found) == 2
    assert not all(repro.shrink.complete for *_, repro in ran.found if getattr(repro, "shrink", None) is not None)
    (line,) = [text for text in ran.notices if text.startswith("the budget was over before")]
    assert line.endswith(f"harness run --resume {given.out} --budget 0 continues")


@pytest.mark.parametrize("error", [TimeUp(), WorkerError("asked for nothing")])
def test_a_plan_that_asks_a_worker_too_late_leaves_the_finding_as_drawn(
    numbers: NumberKit, run: Run, settings: Make, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    subject: Any = numbers.wrong()

    def ask(self: Any, *arguments: Any) -> Any:
        raise error

    monkeypatch.setattr(type(subject), "plan", ask)
    ran = run(subject, settings(shrink=True))
    assert len(ran.found) == 2
    assert [repro.shrink for *_, repro in ran.found] == [None, None]


@pytest.mark.parametrize("stage", ["classify", "plan"])
def test_a_worker_that_fails_at_the_end_of_the_time_ends_no_campaign(
    numbers: NumberKit, run: Run, settings: Make, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    subject: Any = numbers.wrong()

    def fail(self: Any, worker: Any, *arguments: Any) -> Any:
        worker.until = time.monotonic()
        raise WorkerError("asked for nothing")

    monkeypatch.setattr(type(subject), stage, fail)
    assert len(run(subject, settings(shrink=True)).found) == 2


def test_a_worker_is_not_waited_for_when_its_time_is_over(numbers: NumberKit) -> None:
    subject, (first, _) = numbers.harmed("hang", limit=600.0)
    with subject.new_worker() as worker:
        worker.wait_ready()
        assert subject.judge(worker, subject.draw(0)) == ""
        worker.until = time.monotonic() + 0.5
        began = time.monotonic()
        with pytest.raises(TimeUp):
            subject.judge(worker, subject.draw(first))
        with pytest.raises(TimeUp):  # nor is it started again
            subject.judge(worker, subject.draw(0))
        assert time.monotonic() - began < 3.0
        assert not worker.alive
        worker.until = float("inf")
        assert subject.judge(worker, subject.draw(0)) == ""

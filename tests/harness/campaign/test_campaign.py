"""Campaigns: what they find depends on the seed alone, crashes are findings, and nothing counts that did not happen."""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.campaign.campaign import Campaign, Settings, useful_workers
from harness.campaign.events import (
    CampaignFinished,
    CaseJudged,
    Event,
    FindingFound,
    FindingShrunk,
    Notice,
    Summary,
)
from harness.case import Case, Precopy, encode_case
from harness.check.outcome import Outcome
from harness.engines.random import Recipe, case_at
from harness.kernel_cases.worker import CaseWorker
from harness.memory import initial_image, plan_memory
from harness.regimes.registry import regimes_of
from harness.repro import read_repro
from harness.shrink.shrinker import is_plainer
from harness.worker.losses import WorkerError

BOTH = ("postprocess", "precopy")
Run = Callable[..., tuple[Summary, list[Event]]]


def recipe(seed: int = 0, operations: tuple[str, ...] = BOTH, scale: str = "small") -> Recipe:
    return Recipe(seed=seed, domains=("reachable",), operations=operations, scale=scale)  # type: ignore[arg-type]


@pytest.fixture
def settings(tmp_path: Path, executor_name: str) -> Callable[..., Settings]:
    def make(target: str, **changes: Any) -> Settings:
        given = {"recipe": recipe(), "out": tmp_path / "findings", "cases": 16, "shrink": False}
        return Settings(target=target, executor=executor_name, **{**given, **changes})

    return make


def finish(settings: Settings) -> tuple[Summary, list[Event]]:
    events = list(Campaign(settings).run())
    last = events[-1]
    assert isinstance(last, CampaignFinished)
    return last.summary, events


def test_the_number_of_workers_changes_nothing(settings: Callable[..., Settings], tmp_path: Path) -> None:
    """Forty cases are two and a half blocks: one worker gets what the other leaves."""
    told = []
    for workers in (1, 2):
        out = tmp_path / str(workers)
        summary, events = finish(settings("builtin+wrong-group", cases=40, workers=workers, out=out))
        judged = sorted(event.index for event in events if isinstance(event, CaseJudged))
        assert judged == list(range(40))
        assert summary.cases == 40
        assert summary.findings
        told.append(
            (
                [(f.signature, f.summary, f.domain, f.first_case, f.cases) for f in summary.findings],
                [Path(f.repro).read_bytes() for f in summary.findings],
                sorted(path.name for path in out.rglob("*") if path.is_file()),
                summary.judged,
                summary.skipped,
                summary.launches,
                summary.regimes,
                summary.exit_status,
            )
        )
    assert told[0] == told[1]
    assert told[0][-1] == 1


@pytest.mark.parametrize(("cases", "wanted"), [(1, 1), (16, 1), (17, 2), (10**6, 200), (None, 200)])
def test_no_worker_is_started_that_would_get_no_cases(
    settings: Callable[..., Settings], cases: int | None, wanted: int
) -> None:
    assert useful_workers(settings("builtin", cases=cases, workers=200)) == wanted


def test_a_finding_is_the_first_case_with_its_signature(settings: Callable[..., Settings]) -> None:
    """Each file holds the very case that the engine draws, and that case fails as the file says."""
    given = settings("builtin+wrong-group", cases=32)
    summary, events = finish(given)
    failing: dict[str, list[int]] = {}
    for event in events:
        if isinstance(event, CaseJudged) and event.outcome.signature is not None:
            failing.setdefault(str(event.outcome.signature), []).append(event.index)
    assert {f.signature: (f.first_case, f.cases) for f in summary.findings} == {
        signature: (min(indices), len(indices)) for signature, indices in failing.items()
    }
    for finding in summary.findings:
        repro = read_repro(Path(finding.repro))
        assert repro.origin.index == finding.first_case
        assert encode_case(repro.case) == encode_case(case_at(given.recipe, finding.first_case))
        assert str(repro.signature) == finding.signature
        assert repro.evidence.summary == finding.summary


def test_what_is_right_gives_no_finding(settings: Callable[..., Settings]) -> None:
    given = settings("builtin", cases=32, require=("same-block-shift-ds",))
    summary, events = finish(given)
    assert summary.findings == []
    assert summary.judged == {
        name: sum(
            type(operation).__name__.lower() == name
            for index in range(32)
            for operation in case_at(given.recipe, index).program
        )
        for name in BOTH
    }
    assert summary.launches >= sum(summary.judged.values()) // 2
    assert not given.out.exists()
    reached = sum("same-block-shift-ds" in regimes_of(case_at(given.recipe, index)) for index in range(32))
    assert summary.regimes["same-block-shift-ds"] == reached > 0
    assert (summary.missing, summary.exit_status) == ([], 0)
    assert not any(isinstance(event, FindingFound) for event in events)


def test_regimes_and_operations_asked_for_must_be_reached(
    settings: Callable[..., Settings], broken_targets: Path
) -> None:
    """The target lacks precopy: asked for and never judged is no success, and neither is a regime without a case."""
    given = settings("broken:lack", require=("several-groups", "misaligned-base-8"))
    summary, _ = finish(given)
    assert summary.findings == []
    assert summary.judged["precopy"] == 0
    assert summary.judged["postprocess"] > 0
    programs = [case_at(given.recipe, index).program for index in range(summary.cases)]
    lacking = sum(any(isinstance(operation, Precopy) for operation in program) for program in programs)
    assert summary.skipped == {"lacks-operation": lacking}
    assert "operation precopy" in summary.missing
    assert "regime misaligned-base-8" in summary.missing, "no reachable case has it"
    assert summary.exit_status == 3


def trigger_cases(given: Settings) -> list[int]:
    """Cases that make a broken target break: read from its own source."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "broken_targets"))
    try:
        from broken_targets import is_trigger
    finally:
        sys.path.pop(0)
    assert given.cases is not None
    return [
        index
        for index in range(given.cases)
        if any(
            isinstance(operation, Precopy) and is_trigger(operation.runner, len(operation.rows))
            for operation in case_at(given.recipe, index).program
        )
    ]


def with_triggers(make: Callable[..., Settings], target: str, count: int, **changes: Any) -> tuple[Settings, list[int]]:
    """Settings whose cases hold exactly `count` triggers, none of them first or last."""
    for seed in range(1000):
        given = make(target, recipe=recipe(seed, ("precopy",)), **changes)
        triggers = trigger_cases(given)
        if len(triggers) == count and triggers[0] > 0 and triggers[-1] < given.cases - 1:  # type: ignore[operator]
            return given, triggers
    raise AssertionError("no seed has so many triggers")


def test_a_crash_is_a_finding_and_the_campaign_goes_on(settings: Callable[..., Settings], broken_targets: Path) -> None:
    given, triggers = with_triggers(settings, "broken:segfault", 2, cases=20, shrink=True, shrink_executions=1)
    summary, events = finish(given)
    judged = [event.index for event in events if isinstance(event, CaseJudged)]
    assert sorted(judged) == list(range(20)), "every case has one verdict"
    (finding,) = summary.findings
    assert finding.signature == "precopy/isolation/crash-SIGSEGV/process/-"
    assert (finding.first_case, finding.cases) == (triggers[0], 2)
    assert summary.judged["precopy"] == sum(len(case_at(given.recipe, i).program) for i in range(20))
    (found,) = [event for event in events if isinstance(event, FindingFound)]
    assert encode_case(found.repro.case) == encode_case(case_at(given.recipe, triggers[0]))
    (shrunk,) = [event for event in events if isinstance(event, FindingShrunk)]
    assert shrunk.repro.signature == found.repro.signature
    assert shrunk.repro.shrink is not None
    assert (shrunk.repro.shrink.executions, shrunk.repro.shrink.complete) == (1, False)
    assert summary.exit_status == 1


def test_what_the_harness_cannot_judge_is_kept_and_the_campaign_goes_on(
    settings: Callable[..., Settings], broken_targets: Path
) -> None:
    given, triggers = with_triggers(settings, "broken:incomplete", 2, cases=20)
    summary, events = finish(given)
    judged = [event.index for event in events if isinstance(event, CaseJudged)]
    assert sorted(judged) == sorted(set(range(20)) - set(triggers))
    assert (summary.findings, summary.harness_failures, summary.exit_status) == ([], 2, 4)
    kept = given.out / "harness-failures"
    names = {f"seed-{given.recipe.seed}-case-{index}" for index in triggers}
    assert {path.name for path in kept.iterdir()} == {f"{name}{end}" for name in names for end in (".txt", ".json")}
    for index in triggers:
        name = f"seed-{given.recipe.seed}-case-{index}"
        assert (kept / f"{name}.json").read_bytes().strip() == encode_case(case_at(given.recipe, index))
        assert "no stand-in for something" in (kept / f"{name}.txt").read_text()
    told = [event.text for event in events if isinstance(event, Notice)]
    assert any(f"case {triggers[0]}: " in text and "no stand-in for something" in text for text in told)


def test_a_harness_that_fails_again_and_again_ends_the_campaign(
    settings: Callable[..., Settings], broken_targets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.campaign.harness_failures.LIMIT", 1)
    given, _ = with_triggers(settings, "broken:incomplete", 2, cases=20)
    summary, events = finish(given)
    assert (summary.harness_failures, summary.exit_status) == (1, 4)
    assert any("ends early" in event.text for event in events if isinstance(event, Notice))


def test_what_ends_a_campaign_early_ends_it_for_every_worker(
    settings: Callable[..., Settings], broken_targets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.campaign.harness_failures.LIMIT", 1)
    given = settings("broken:incomplete", cases=None, budget_seconds=600.0, workers=2)
    summary, events = finish(given)
    assert summary.exit_status == 4
    assert sum("ends early" in event.text for event in events if isinstance(event, Notice)) == 1
    assert max(event.index for event in events if isinstance(event, CaseJudged)) < 10_000


def test_a_harness_that_fails_while_shrinking_keeps_the_finding_and_the_candidate(
    settings: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every third candidate breaks the harness."""
    check, asked = CaseWorker.check, []

    def breaking(worker: CaseWorker, case: Case, *rest: Any, **named: Any) -> Outcome:
        asked.append(case)
        if len(asked) % 3 == 0 and len(asked) < 10:
            raise WorkerError("Traceback\nbroken")
        return check(worker, case, *rest, **named)

    monkeypatch.setattr(CaseWorker, "check", breaking)
    given = settings("builtin+wrong-group", cases=16, shrink=True, shrink_executions=60)
    summary, _ = finish(given)
    assert summary.findings
    assert summary.exit_status == 4
    assert summary.harness_failures == 3
    kept = sorted((given.out / "harness-failures").glob("*-candidate-*.json"))
    assert [path.read_bytes().strip() for path in kept] == [encode_case(asked[index]) for index in (2, 5, 8)]


def test_a_kill_from_outside_is_no_finding_unless_it_happens_again(
    settings: Callable[..., Settings], broken_targets: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BROKEN_TARGETS_MARK", str(tmp_path / "mark"))
    given, _ = with_triggers(settings, "broken:killed-once", 2, cases=20)
    summary, events = finish(given)
    assert sorted(event.index for event in events if isinstance(event, CaseJudged)) == list(range(20))
    assert (summary.findings, summary.exit_status) == ([], 0)
    assert [event.text for event in events if isinstance(event, Notice) and "ended from outside (SIGKILL" in event.text]
    again, triggers = with_triggers(settings, "broken:killed", 2, cases=20)
    summary, events = finish(again)
    assert sorted(event.index for event in events if isinstance(event, CaseJudged)) == list(range(20))
    (finding,) = summary.findings
    assert finding.signature == "precopy/isolation/crash-SIGKILL/process/-"
    assert (finding.first_case, finding.cases) == (triggers[0], 2)


def test_a_harness_that_fails_when_a_lost_case_is_asked_again_goes_on_after_it(
    settings: Callable[..., Settings], broken_targets: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BROKEN_TARGETS_MARK", str(tmp_path / "mark"))

    def broken(worker: CaseWorker, case: Case, *rest: Any, index: int, **named: Any) -> Outcome:
        raise WorkerError("Traceback\nbroken", index)

    monkeypatch.setattr(CaseWorker, "check", broken)
    given, triggers = with_triggers(settings, "broken:killed-once", 2, cases=20)
    summary, events = finish(given)
    assert sorted(event.index for event in events if isinstance(event, CaseJudged)) == sorted(
        set(range(20)) - {triggers[0]}
    )
    assert (summary.findings, summary.harness_failures, summary.exit_status) == ([], 1, 4)
    kept = given.out / "harness-failures" / f"seed-{given.recipe.seed}-case-{triggers[0]}.json"
    assert kept.read_bytes().strip() == encode_case(case_at(given.recipe, triggers[0]))


def test_wherever_a_worker_is_killed_every_case_has_one_verdict(
    settings: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between cases too: the case it had answered is not judged again, and the next one not blamed on anybody."""
    workers: list[CaseWorker] = []
    make = Campaign._new_worker

    def new_worker(self: Campaign) -> CaseWorker:
        workers.append(make(self))
        return workers[-1]

    monkeypatch.setattr(Campaign, "_new_worker", new_worker)
    given = settings("builtin", cases=60)
    undisturbed, _ = finish(given)
    judged: list[int] = []
    ends: list[Event] = []
    for event in Campaign(given).run():
        if isinstance(event, CaseJudged):
            judged.append(event.index)
            if event.index in (0, 15, 16, 30, 59):
                os.kill(workers[-1]._process.pid, signal.SIGKILL)
        ends.append(event)
    assert sorted(judged) == list(range(60))
    last = ends[-1]
    assert isinstance(last, CampaignFinished)
    for name in ("cases", "judged", "regimes", "findings", "skipped", "exit_status"):
        assert getattr(last.summary, name) == getattr(undisturbed, name), name


@pytest.mark.parametrize("when", ["as-drawn", "minimal"])
def test_a_disk_that_fills_up_ends_a_campaign_with_its_summary(
    settings: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    def full(source: str, destination: Path) -> None:
        if (destination.parent.name == "as-drawn") == (when == "as-drawn"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # without a name, as of a write
        rename(source, destination)

    rename = os.replace
    monkeypatch.setattr("harness.files.os.replace", full)
    given = settings("builtin+wrong-group", cases=2000, shrink=True, shrink_executions=3, fail_fast=True)
    events: list[Event] = []
    with pytest.raises(OSError, match=r"No space left on device; p.*/wrong-bytes/.*, seed 0, case \d+ is") as caught:
        events.extend(Campaign(given).run())  # what came before the error stays
    assert str(caught.value.filename).startswith(str(given.out))
    last = events[-1]
    assert isinstance(last, CampaignFinished)
    assert last.summary.exit_status == 2
    assert 0 < last.summary.cases < 2000
    saved = sorted(str(read_repro(path).signature) for path in given.out.rglob("*.json"))
    assert saved == sorted(finding.signature for finding in last.summary.findings)
    assert bool(saved) == (when == "minimal"), "what was saved before is told"
    assert [path for path in given.out.rglob("*") if path.is_file() and path.suffix != ".json"] == []


def test_a_hang_costs_its_own_case_only(settings: Callable[..., Settings], broken_targets: Path) -> None:
    """The other worker has much to do meanwhile: nobody must take its silence, or ours, for a hang."""
    given = settings("builtin", recipe=recipe(0, ("precopy",)), cases=300, workers=2, case_seconds=4.0)
    cases_of_sum: dict[int, list[int]] = {}
    for index in range(300):
        case = case_at(given.recipe, index)
        plan = plan_memory(case, 32)
        image = initial_image(case, plan)
        for spans in plan.arrays:
            columns = image.view(spans["source_column"].start, spans["source_column"].size).view("int32")
            cases_of_sum.setdefault(int(columns.sum()), []).append(index)
    total, (culprit,) = next((total, found) for total, found in cases_of_sum.items() if len(found) == 1)
    summary, events = finish(msgspec.structs.replace(given, target=f"broken:hang@{total}"))
    assert sorted(event.index for event in events if isinstance(event, CaseJudged)) == list(range(300))
    (finding,) = summary.findings
    assert finding.signature == "precopy/isolation/hang/process/-"
    assert (finding.first_case, finding.cases) == (culprit, 1)


def test_a_campaign_of_nothing_but_crashes_ends(
    settings: Callable[..., Settings], broken_targets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.campaign.campaign.WORKER_LOSSES_LIMIT", 1)
    given, _ = with_triggers(settings, "broken:exit", 2, cases=20)
    summary, events = finish(given)
    assert [f.signature for f in summary.findings] == ["precopy/isolation/exit-3/process/-"]
    assert any("ends early" in str(getattr(event, "text", "")) for event in events)


def test_a_time_budget_is_kept(settings: Callable[..., Settings]) -> None:
    given = settings("builtin", cases=None, budget_seconds=1.5)
    times = [(time.monotonic(), event) for event in Campaign(given).run()]
    begin = times[0][0]
    assert 1.0 < times[-1][0] - begin < 12.0
    summary = times[-1][1].summary  # type: ignore[union-attr]
    assert summary.cases == sum(isinstance(event, CaseJudged) for _, event in times) > 0
    assert summary.exit_status == 0


def test_fail_fast_stops_judging(settings: Callable[..., Settings]) -> None:
    summary, _ = finish(settings("builtin+wrong-group", cases=2000, fail_fast=True))
    assert summary.findings
    assert summary.cases < 200
    assert summary.exit_status == 1


def test_findings_are_safe_before_shrinking(settings: Callable[..., Settings]) -> None:
    """Every event of a finding comes when its file is whole; shrinking begins after the last case."""
    given = settings("builtin+wrong-group", cases=24, shrink=True, shrink_executions=400)
    order: list[str] = []
    for event in Campaign(given).run():
        order.append(type(event).__name__)
        if isinstance(event, FindingFound | FindingShrunk):
            assert read_repro(event.path) == event.repro
    judged, shrunk = len(order) - 1 - order[::-1].index("CaseJudged"), order.index("FindingShrunk")
    first = order.index("FindingFound")
    assert first < judged < shrunk
    for path in given.out.rglob("*"):
        if path.is_file():
            read_repro(path)
    as_drawn = {read_repro(path).signature for path in (given.out / "as-drawn").iterdir()}
    minimal = {read_repro(path).signature for path in given.out.glob("*.json")}
    # A race may go by a plainer kind of state in its minimal form.
    assert all(any(found == drawn or is_plainer(found, drawn) for drawn in as_drawn) for found in minimal)
    assert all(any(found == drawn or is_plainer(found, drawn) for found in minimal) for drawn in as_drawn)

"""Campaigns of any subject: their findings depend only on the seed, losses are findings, and every case is judged
once, even if workers are lost."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.campaign.campaign import Campaign
from harness.campaign.events import CaseJudged, Event, FindingFound, FindingKept, Notice
from harness.campaign.journal import Journal
from harness.campaign.settings import Settings, useful_workers
from harness.repro import read_any
from harness.subject.entry import Entry
from harness.subject.registry import AnySubject
from harness.worker.losses import WorkerError
from harness.worker.process import WorkerProcess

if TYPE_CHECKING:
    from tests.harness.campaign.conftest import Kit, Ran

Run = Callable[..., "Ran"]
Make = Callable[..., Settings]
COUNT = 40


def files(folder: Path) -> dict[str, bytes]:
    """Without what says when the campaign ran, and its lock."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: text for name, text in found.items() if not name.startswith("campaign/")}


def failures(out: Path, subject: AnySubject, index: int) -> tuple[Path, Path]:
    """The files of a case that the harness failed in: the traceback, and the case."""
    name = f"seed-{subject.seed}-{subject.noun}-{index}"
    return out / "harness-failures" / f"{name}.txt", out / "harness-failures" / f"{name}.json"


def case_in(path: Path, subject: AnySubject) -> bytes:
    """The case in a file: alone, or in a repro file."""
    text = path.read_bytes()
    if b'"harness_repro"' not in text:
        return text.strip()
    repro: Any = read_any(path)[1]
    return subject.encode(repro.sequence)


def new_workers(subject: AnySubject, monkeypatch: pytest.MonkeyPatch) -> list[WorkerProcess]:
    """The workers that a subject makes from now on."""
    workers: list[WorkerProcess] = []
    make = subject.new_worker

    def new_worker(*arguments: Any) -> WorkerProcess:
        workers.append(make(*arguments))
        return workers[-1]

    monkeypatch.setattr(subject, "new_worker", new_worker)
    return workers


@pytest.mark.kernel_cases_too
def test_the_number_of_workers_changes_nothing(kit: Kit, run: Run, settings: Make, whole: Ran) -> None:
    """Each worker gets the cases that the other does not."""
    subject, given = kit.wrong(), settings(workers=2)
    results = []
    for ran in (whole, run(subject, given)):
        assert ran.judged == list(range(COUNT))
        assert ran.summary.count == COUNT
        assert ran.summary.exit_status == 1
        found = files(ran.out)
        head, *entries = found.pop(subject.journal).splitlines()
        results.append((ran.found, found, head, sorted(entry.partition(b",")[0] for entry in entries)))
    assert results[0] == results[1]
    assert results[0][0]


@pytest.mark.parametrize(("cases", "wanted"), [(0, 1), (1, 1), (16, 1), (17, 2), (10**6, 200), (None, 200)])
def test_no_worker_is_started_that_would_get_no_cases(tmp_path: Path, cases: int | None, wanted: int) -> None:
    assert useful_workers(Settings(out=tmp_path, cases=cases, workers=200), 16) == wanted


@pytest.mark.kernel_cases_too
def test_a_finding_is_the_first_case_with_its_signature(kit: Kit, whole: Ran) -> None:
    """Each file holds the very case that is drawn, and that case fails as the file says."""
    subject, ran = kit.wrong(), whole
    failing: dict[str, list[int]] = {}
    for event in ran.events:
        if isinstance(event, CaseJudged):
            key = subject.key(subject.draw(event.index), event.result)
            if key is not None:
                failing.setdefault(key.signature, []).append(event.index)
    assert {signature: (first, cases) for signature, first, cases, _ in ran.found} == {
        signature: (min(indices), len(indices)) for signature, indices in failing.items()
    }
    assert max(map(len, failing.values())) > 1
    with subject.new_worker() as worker:
        worker.wait_ready()
        for signature, first, _, repro in ran.found:
            case = subject.case_of(repro)
            assert subject.encode(case) == subject.encode(subject.draw(first))
            again = subject.judge(worker, case, index=first)
            key = subject.key(case, again)
            assert key is not None
            assert key.signature == signature


def test_what_is_right_gives_no_finding(kit: Kit, run: Run, settings: Make) -> None:
    subject = kit.right()
    ran = run(subject, settings())
    assert ran.judged == list(range(COUNT))
    assert (ran.found, ran.summary.harness_failures) == ([], 0)
    assert ran.summary.exit_status != 1
    assert not any(isinstance(event, FindingFound) for event in ran.events)
    assert list(files(ran.out)) == [subject.journal]


# Losses.


@pytest.mark.kernel_cases_too
@pytest.mark.parametrize(("how", "ending"), [("crash", "crash-SIG*"), ("exit", "exit-3")])
def test_a_lost_worker_is_a_finding_and_the_campaign_continues(
    kit: Kit, run: Run, settings: Make, how: str, ending: str
) -> None:
    subject, (first, _) = kit.harmed(how)
    ran = run(subject, settings(shrink=True, shrink_executions=1))
    assert ran.judged == list(range(COUNT)), "every case has one result"
    ((signature, index, cases, _),) = ran.found
    before, _, after = kit.signature_of_loss.partition("{}")
    kind = signature.removeprefix(before).removesuffix(after)
    assert kind == ending or (ending.endswith("*") and kind in ("crash-SIGSEGV", "crash-SIGABRT"))
    assert (index, cases) == (first, 2)
    (found,) = [event for event in ran.events if isinstance(event, FindingFound)]
    assert (found.index, found.key.signature) == (first, signature)
    (kept,) = [event for event in ran.events if isinstance(event, FindingKept)]
    assert (kept.key.signature, kept.count) == (signature, 2)
    assert subject.encode(subject.case_of(found.repro)) == subject.encode(subject.draw(first))
    if kept.repro.shrink is not None:  # sequences stay as they were drawn: each run would cost loading a release
        assert (kept.repro.shrink.executions, kept.repro.shrink.complete) == (1, False)
    assert ran.summary.exit_status == 1


def test_a_kill_from_outside_is_not_a_finding_unless_it_happens_again(
    kit: Kit, run: Run, settings: Make, tmp_path: Path
) -> None:
    subject, _ = kit.harmed("kill-once")
    ran = run(subject, settings())
    assert ran.judged == list(range(COUNT))
    assert (ran.found, ran.summary.harness_failures) == ([], 0)
    outside = "a worker was ended from outside (SIGKILL; is memory short?): its work is repeated"
    partial = [notice for notice in ran.notices if notice.startswith("line coverage leaves out")]  # only kernel cases
    assert ran.notices == [outside, *partial]
    subject, (first, _) = kit.harmed("kill")
    ran = run(subject, settings(out=tmp_path / "again"))
    assert ran.judged == list(range(COUNT))
    ((signature, index, cases, _),) = ran.found
    assert (signature, index, cases) == (kit.signature_of_loss.format("crash-SIGKILL"), first, 2)


def test_wherever_a_worker_is_killed_every_case_has_one_result(
    kit: Kit, run: Run, settings: Make, whole: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also between cases: the case that it had answered is not judged again, and the loss is not blamed on the next
    one."""
    subject = kit.wrong()
    workers = new_workers(subject, monkeypatch)

    def kill(event: Event) -> None:
        if isinstance(event, CaseJudged) and event.index in (0, 15, 30, COUNT - 1):
            os.kill(workers[-1]._process.pid, signal.SIGKILL)

    ran = run(subject, settings(), kill)
    assert ran.judged == list(range(COUNT))
    assert ran.found == whole.found
    assert files(ran.out).keys() == files(whole.out).keys()
    assert ran.summary.exit_status == whole.summary.exit_status


@pytest.mark.kernel_cases_too
def test_a_worker_killed_while_a_finding_is_shrunk_is_replaced(
    kit: Kit, run: Run, settings: Make, whole: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = kit.wrong()
    workers = new_workers(subject, monkeypatch)
    shrinking: list[str] = []

    def kill(event: Event) -> None:
        if isinstance(event, Notice) and event.text.startswith("shrinking "):
            shrinking.append(event.text)
            os.kill(workers[-1]._process.pid, signal.SIGKILL)

    ran = run(subject, settings(shrink=True, shrink_executions=2), kill)
    assert len(shrinking) == len(whole.found)
    assert [one[:3] for one in ran.found if one[2]] == [one[:3] for one in whole.found]
    assert all(repro.shrink is not None for _, _, cases, repro in ran.found if cases)
    assert ran.summary.harness_failures == 0


@pytest.mark.kernel_cases_too
def test_a_hang_costs_its_own_case_only(kit: Kit, run: Run, settings: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here a worker is overdue as soon as it says that it hangs: what counts as silence is tested with workers."""

    def overdue(worker: WorkerProcess) -> bool:
        return "hanging" in worker._tail() and not worker.connection.poll()

    monkeypatch.setattr(WorkerProcess, "overdue", overdue)
    subject, (first, _) = kit.harmed("hang")
    ran = run(subject, settings(workers=2))
    assert ran.judged == list(range(COUNT))
    ((signature, index, cases, repro),) = ran.found
    assert (signature, index, cases) == (kit.signature_of_loss.format("hang"), first, 2)
    assert repro.origin.index == first


def test_a_campaign_of_nothing_but_losses_ends(kit: Kit, run: Run, settings: Make) -> None:
    subject, (first, _) = kit.harmed("exit")
    subject.losses_limit = 1
    ran = run(subject, settings())
    assert [one[:3] for one in ran.found] == [(kit.signature_of_loss.format("exit-3"), first, 1)]
    assert ran.judged == list(range(first + 1))
    assert "the campaign ends early: 1 times a worker was lost" in ran.notices


# Failures of the harness.


def test_a_case_that_the_harness_fails_in_is_kept_and_the_campaign_continues(
    kit: Kit, run: Run, settings: Make, tmp_path: Path
) -> None:
    subject, broken = kit.harmed("break")
    ran = run(subject, settings(workers=2))
    assert ran.judged == sorted(set(range(COUNT)) - set(broken))
    assert (ran.found, ran.summary.harness_failures, ran.summary.exit_status) == ([], 2, 4)
    kept = [path for index in broken for path in failures(tmp_path / "out", subject, index)]
    assert set(kept) == set((tmp_path / "out" / "harness-failures").iterdir())
    for index in broken:
        traceback, case = failures(tmp_path / "out", subject, index)
        assert case_in(case, subject) == subject.encode(subject.draw(index))
        last = traceback.read_text().strip().splitlines()[-1]
        assert f"the harness itself failed in {subject.noun} {index}: {last}; see {traceback} and {case}" in ran.notices
        assert "a mistake of ours" in last or "no stand-in for something" in last
    kit.mend()
    mended = run(subject, settings(resume=True))
    assert mended.judged == broken, "a fixed harness judges what it could not before"
    assert (mended.summary.count, mended.summary.harness_failures) == (COUNT, 0)
    assert mended.summary.exit_status != 4


@pytest.mark.parametrize("workers", [1, 2])
def test_a_harness_that_fails_again_and_again_ends_the_campaign(
    kit: Kit, run: Run, settings: Make, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """With any number of workers, although the number of cases is unlimited."""
    monkeypatch.setattr("harness.campaign.harness_failures.LIMIT", 2)
    subject, broken = kit.harmed("break")
    ran = run(subject, settings(cases=None, seconds=3600.0, workers=workers))
    assert 2 <= ran.summary.harness_failures < 2 + workers, "another one may be in flight"
    assert ran.summary.exit_status == 4
    assert ran.notices.count("the campaign ends early: the harness failed 2 times") == 1
    assert not set(ran.judged) & set(broken)


def test_a_harness_failure_in_a_repeated_lost_case_does_not_end_the_campaign(
    kit: Kit, run: Run, settings: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(campaign: Campaign, worker: WorkerProcess, index: int, **_: Any) -> Any:
        raise WorkerError("Traceback\nbroken", index)

    monkeypatch.setattr(Campaign, "_results_at", broken)
    subject, (lost, _) = kit.harmed("kill-once")
    ran = run(subject, settings())
    assert ran.judged == sorted(set(range(COUNT)) - {lost})
    assert (ran.found, ran.summary.harness_failures, ran.summary.exit_status) == ([], 1, 4)
    _, case = failures(tmp_path / "out", subject, lost)
    assert case_in(case, subject) == subject.encode(subject.draw(lost))


@pytest.mark.parametrize("broken", [(2, 5, 8), range(2, 1000)], ids=["occasionally", "from some time on"])
def test_a_harness_that_fails_while_shrinking_keeps_the_finding_and_the_candidates(
    kit: Kit, run: Run, settings: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, broken: tuple[int, ...]
) -> None:
    judge = WorkerProcess.judge
    asked: list[bytes] | None = None

    def breaking(worker: WorkerProcess, case: bytes, *rest: Any, **named: Any) -> bytes:
        if asked is not None:
            asked.append(case)
            if len(asked) - 1 in broken:
                raise WorkerError("Traceback\nbroken")
        return judge(worker, case, *rest, **named)

    def handle(event: Event) -> None:
        nonlocal asked
        if asked is None and isinstance(event, Notice) and event.text.startswith("shrinking "):
            asked = []

    monkeypatch.setattr(WorkerProcess, "judge", breaking)
    subject = kit.wrong()
    ran = run(subject, settings(shrink=True, shrink_executions=60), handle)
    assert asked is not None
    drawn = [event for event in ran.events if isinstance(event, FindingFound) and event.index is not None]
    assert {one[1] for one in ran.found if one[2]} <= {event.index for event in drawn}
    assert any(one[2] for one in ran.found)
    assert ran.summary.exit_status == 4
    kept = sorted((tmp_path / "out" / "harness-failures").glob("*-candidate-*.json"))
    assert ran.summary.harness_failures == len(kept) == (3 if len(broken) == 3 else 5)
    assert [case_in(path, subject) for path in kept] == [asked[index] for index in sorted(broken)[: len(kept)]]


# Ends.


def test_a_time_budget_is_kept(kit: Kit, run: Run, settings: Make) -> None:
    """It ends, although the number of cases is unlimited, and not before its time, of which its end takes a part."""
    began: list[float] = []
    ran = run(kit.right(), settings(cases=None, seconds=1.0), lambda event: began.append(time.monotonic()))
    assert began[-1] - began[0] >= 0.85
    assert ran.judged == list(range(ran.summary.count))
    assert ran.summary.harness_failures == 0


@pytest.mark.kernel_cases_too
def test_fail_fast_stops_judging(kit: Kit, run: Run, settings: Make) -> None:
    """The cases that the worker has already are judged, and no more."""
    subject = kit.wrong()
    ran = run(subject, settings(cases=100_000, fail_fast=True))
    first = min(index for _, index, _, _ in ran.found)
    assert ran.judged == list(range((first // subject.block + 1) * subject.block))
    assert ran.summary.exit_status == 1


def test_a_loss_is_the_first_finding_too(kit: Kit, run: Run, settings: Make) -> None:
    subject, (first, _) = kit.harmed("exit")
    assert run(subject, settings(fail_fast=True)).judged == list(range(first + 1))


# Files.


@pytest.mark.kernel_cases_too
def test_findings_are_saved_before_anything_else(
    kit: Kit, run: Run, settings: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The campaign may be killed at any moment: each finding in its journal and its events is already in a file.
    Shrinking begins after the last case."""
    saved: dict[int, list[str]] = {}
    append = Journal.append

    def look(journal: Journal, entry: Entry) -> None:
        if entry.signature is not None:
            signatures = [str(read_any(path)[1].signature) for path in (tmp_path / "out" / "as-drawn").iterdir()]
            assert any(entry.signature in one for one in signatures)
            saved[entry.index] = signatures
        append(journal, entry)

    def handle(event: Event) -> None:
        if isinstance(event, FindingFound | FindingKept):
            assert read_any(event.path)[1] == event.repro

    monkeypatch.setattr(Journal, "append", look)
    subject = kit.wrong()
    ran = run(subject, settings(shrink=True, shrink_executions=100), handle)
    order = [type(event).__name__ for event in ran.events]
    judged, kept = len(order) - 1 - order[::-1].index("CaseJudged"), order.index("FindingKept")
    assert order.index("FindingFound") < judged < kept
    assert {index for _, index, cases, _ in ran.found if cases} <= saved.keys()
    for folder in (tmp_path / "out", tmp_path / "out" / "as-drawn"):
        for path in folder.glob("*.json"):
            read_any(path)


@pytest.mark.parametrize("when", ["as-drawn", "minimal"])
def test_a_finding_that_cannot_be_written_ends_a_campaign_with_its_summary(
    kit: Kit, run: Run, settings: Make, whole: Ran, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    replace = os.replace

    def full(source: str, destination: Path) -> None:
        if (destination.parent.name == "as-drawn") == (when == "as-drawn"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # without a name, as errors of writes are
        replace(source, destination)

    given = settings(shrink=True, shrink_executions=3)
    subject = kit.wrong()
    events: list[Event] = []
    message = r"No space left on device; \S+(, seed \d+, case \d+)? is not saved, and the campaign ends"
    with monkeypatch.context() as patch:
        patch.setattr("harness.files.os.replace", full)
        with pytest.raises(OSError, match=message) as caught:
            events.extend(Campaign(subject, given).run())  # the events before the error stay
    where = given.out / "as-drawn" if when == "as-drawn" else given.out
    assert Path(caught.value.filename).parent == where
    summary = events[-1].summary  # type: ignore[union-attr]
    assert summary.exit_status == 2
    judged = [event.index for event in events if isinstance(event, CaseJudged)]
    found = summary.compared()
    if when == "minimal":
        assert len(judged) == COUNT
        assert all(Path(finding.repro).is_file() for finding in found)
        assert {Path(finding.repro).parent.name for finding in found} == {"as-drawn"}
    else:
        assert len(judged) < COUNT
        assert [finding.repro for finding in found] in ([None], ["None"])
    assert not list(given.out.rglob("*.partial"))
    assert run(kit.wrong(), settings(resume=True)).found == whole.found

"""Resuming campaigns of any subject: an interrupted one ends like an undisturbed one, and never mixes with another."""

from __future__ import annotations

import errno
import importlib
import os
import re
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from harness.campaign.campaign import Campaign
from harness.campaign.events import CampaignStarted, CaseJudged, Event, FindingFound, Notice
from harness.campaign.journal import CannotResume, Journal
from harness.campaign.settings import Settings
from harness.subject.entry import Entry
from harness.worker.process import WorkerProcess

if TYPE_CHECKING:
    from tests.harness.campaign.conftest import Kit, Ran

Run = Callable[..., "Ran"]
Make = Callable[..., Settings]
COUNT = 40


def files(folder: Path) -> dict[Path, bytes]:
    """Without what says when the campaign ran, and its lock."""
    found = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {path: text for path, text in found.items() if "campaign" not in path.parts}


def entries(journal: Path) -> list[Entry]:
    """The lines of a journal except for the first."""
    return [msgspec.json.decode(line, type=Entry) for line in journal.read_bytes().splitlines()[1:]]


@pytest.mark.kernel_cases_too
def test_a_campaign_is_resumed_where_its_journal_has_holes_and_a_torn_end(
    kit: Kit, run: Run, settings: Make, whole: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject, given = kit.wrong(), settings(resume=True, workers=2)
    shutil.copytree(whole.out, given.out)
    journal = given.out / subject.journal
    lines = journal.read_bytes().splitlines(keepends=True)
    kept = [*lines[:3], *lines[6:8], lines[16], *lines[20:34]]
    journal.write_bytes(b"".join([*kept, lines[35][:-9]]))
    before = [msgspec.json.decode(line, type=Entry) for line in kept[1:]]
    known = {entry.index for entry in before}
    by_signature: dict[str, list[int]] = {}
    for entry in before:
        if entry.signature is not None:
            by_signature.setdefault(entry.signature, []).append(entry.index)
    assert max(map(len, by_signature.values())) > 1
    again: list[int] = []
    results_at = Campaign._results_at

    def asked(campaign: Campaign, worker: Any, index: int, **named: Any) -> Any:
        again.append(index)
        return results_at(campaign, worker, index, **named)

    monkeypatch.setattr(Campaign, "_results_at", asked)
    resumed = run(subject, given)
    assert resumed.judged == sorted(set(range(COUNT)) - known)
    assert sorted(again) == sorted(map(min, by_signature.values())), "the first case of each signature is judged again"
    assert resumed.found == whole.found
    assert resumed.summary.count == COUNT
    if kit.name != "number":
        assert (resumed.summary.in_this_part, whole.summary.in_this_part) == (COUNT - len(known), COUNT)
    assert resumed.summary.exit_status == whole.summary.exit_status
    assert f"resuming after {subject.noun} {max(known)}: {len(known)} were run before" in resumed.notices
    assert sorted(entry.index for entry in entries(journal)) == list(range(COUNT))
    assert files(given.out).keys() == files(whole.out).keys()


@pytest.mark.parametrize(
    "line",
    [
        b'{"index":3,"reached":"no hex"}',
        b'{"index":3,"reached":"' + b"f" * 200 + b'"}',
        b'{"index":3,"reached":"-5"}',
        b'{"index":-1}',
        b'{"index":1' + b"0" * 40 + b"}",
        b"[" * 100_000,
        b"\xff\x00",
    ],
    ids=["no hex", "unknown regimes", "negative", "negative index", "huge index", "nested", "bytes"],
)
def test_a_damaged_line_of_a_journal_counts_for_nothing(
    kit: Kit, run: Run, settings: Make, whole: Ran, line: bytes
) -> None:
    subject, given = kit.wrong(), settings(resume=True)
    shutil.copytree(whole.out, given.out)
    journal = given.out / subject.journal
    lines = journal.read_bytes().splitlines(keepends=True)
    kept = [one for one in lines if re.match(rb'{"index":3\b', one) is None]
    assert len(kept) == len(lines) - 1
    journal.write_bytes(b"".join([*kept, line, b"\n"]))
    resumed = run(subject, given)
    assert (resumed.judged, resumed.found) == ([3], whole.found)


def test_a_worker_ended_from_outside_repeats_a_finding_that_is_judged_again(
    kit: Kit, run: Run, settings: Make, whole: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would be a finding, and the previous one would be gone."""
    subject, given = kit.wrong(), settings(resume=True)
    shutil.copytree(whole.out, given.out)
    send_range, kills = WorkerProcess.send_range, [True]

    def killed_once(worker: WorkerProcess, *arguments: Any, **named: Any) -> None:
        number = worker._process.pid
        if kills:
            os.kill(number, signal.SIGSTOP)  # so that it cannot answer first
        send_range(worker, *arguments, **named)
        if kills:
            os.kill(number, signal.SIGKILL)
            kills.pop()

    monkeypatch.setattr(WorkerProcess, "send_range", killed_once)
    resumed = run(subject, given)
    assert (resumed.judged, resumed.found) == ([], whole.found)
    assert any("ended from outside (SIGKILL" in text for text in resumed.notices)


def test_a_campaign_that_had_ended_ends_the_same_again(kit: Kit, run: Run, settings: Make, whole: Ran) -> None:
    subject, given = kit.wrong(), settings(resume=True)
    shutil.copytree(whole.out, given.out)
    journal = (given.out / subject.journal).read_bytes()
    resumed = run(subject, given)
    assert (resumed.judged, resumed.found) == ([], whole.found)
    assert (given.out / subject.journal).read_bytes() == journal


def test_more_cases_can_be_asked_for(kit: Kit, run: Run, settings: Make, whole: Ran) -> None:
    run(kit.wrong(), settings(cases=COUNT // 2))
    assert run(kit.wrong(), settings(resume=True)).found == whole.found


def test_a_notice_says_that_more_cases_were_judged_than_asked_for(run: Run, settings: Make) -> None:
    numbers: Any = importlib.import_module("numbers_subject")
    run(numbers.Numbers("builtin"), settings())
    resumed = run(numbers.Numbers("builtin"), settings(resume=True, cases=8))
    assert (resumed.judged, resumed.summary.count) == ([], COUNT)
    assert (
        resumed.notices.count("the earlier part judged 40 numbers, which is more than 8 numbers: all of them count")
        == 1
    )
    assert not [text for text in run(numbers.Numbers("builtin"), settings(resume=True)).notices if "more than" in text]


def test_the_notice_of_resuming_comes_before_earlier_findings(run: Run, settings: Make) -> None:
    numbers: Any = importlib.import_module("numbers_subject")
    run(numbers.Numbers("builtin"), settings())
    messages = [
        event.text if isinstance(event, Notice) else "found"
        for event in run(numbers.Numbers("builtin"), settings(resume=True)).events
        if isinstance(event, Notice | FindingFound)
    ]
    again = "judging again the numbers that show what the earlier part found"
    assert messages[:3] == ["resuming after number 39: 40 were run before", again, "found"]


def test_a_case_that_was_answered_and_then_lost_shows_both_again(
    run: Run, settings: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers: Any = importlib.import_module("numbers_subject")
    subject = numbers.Numbers("builtin")
    bad = next(index for index in range(COUNT) if 13 in subject.draw(index))
    monkeypatch.setenv("NUMBERS_LEAVES_AFTER", str(bad))
    before = run(subject, settings())
    lost = next(one for one in before.found if one[0] == "process-exit-3")
    assert lost[1:3] == (bad, 1)
    resumed = run(subject, settings(resume=True))
    assert (resumed.judged, resumed.summary.count, resumed.found) == ([], COUNT, before.found)
    assert not [text for text in resumed.notices if " before, and " in text]


def test_an_interrupted_campaign_says_what_is_left(kit: Kit, settings: Make, whole: Ran) -> None:
    subject, given = kit.wrong(), settings()
    campaign = Campaign(subject, given)
    assert campaign.so_far == ""
    failing = {entry.index for entry in entries(whole.out / subject.journal) if entry.signature is not None}
    for event in campaign.run():
        if isinstance(event, CaseJudged) and event.index == max(failing):
            break
    assert campaign.so_far == (
        f"findings in {len(failing)} {subject.noun}s, as drawn in '{given.out / 'as-drawn'}', "
        f"after {max(failing) + 1} {subject.noun}s; "
        "resume with the same command and --resume"
    )


@pytest.mark.kernel_cases_too
def test_a_loss_is_taken_from_the_journal_or_shows_again(kit: Kit, run: Run, settings: Make) -> None:
    """In either case the result is the same as before."""
    subject, _ = kit.harmed("exit")
    before = run(subject, settings())
    resumed = run(subject, settings(resume=True))
    assert (resumed.judged, resumed.found) == ([], before.found)


def test_a_changed_result_is_reported(kit: Kit, run: Run, settings: Make) -> None:
    subject, (first, second) = kit.harmed("fault")
    signature = run(subject, settings()).found[0][0]
    kit.mend()
    resumed = run(subject, settings(resume=True))
    if resumed.found:  # sequences take a lost worker from the journal
        assert [one[:3] for one in resumed.found] == [(signature, first, 2)]
    else:
        expected = [
            f"{subject.noun} {index} gave {signature} before, and no violation now" for index in (first, second)
        ]
        assert [text for text in resumed.notices if " before, and " in text] == expected


# Journals of other campaigns.


def test_nothing_resumes_from_the_journal_of_another_campaign(kit: Kit, run: Run, settings: Make, whole: Ran) -> None:
    subject, given = kit.wrong(seed=77), settings(resume=True)
    shutil.copytree(whole.out, given.out)
    before = files(given.out)
    with pytest.raises(CannotResume) as refused:
        Campaign(subject, given)
    seed = kit.wrong().seed
    assert str(refused.value) == f"{given.out / subject.journal} is another campaign's: seed {seed}, not 77"
    assert files(given.out) == before


def test_nothing_resumes_without_a_journal(kit: Kit, settings: Make) -> None:
    given = settings(resume=True)
    with pytest.raises(CannotResume, match=r"^there is no \S+ to resume from$"):
        Campaign(kit.right(), given)
    assert not given.out.exists()


def test_a_new_campaign_moves_what_is_there_aside(kit: Kit, run: Run, settings: Make, tmp_path: Path) -> None:
    """Completely: the earlier campaign can be resumed in its new place. Files that no campaign wrote stay."""
    out = tmp_path / "out"
    others = [out / "wrong-group.json", out / "as-drawn" / "wrong-group.json", out / f"{kit.name}.txt"]
    (out / "as-drawn").mkdir(parents=True)
    for path in others:
        path.write_text("something else")
    subject = kit.wrong()
    left = []
    for number, cases in enumerate((COUNT, COUNT // 2, 5)):
        ran = run(kit.wrong(), settings(cases=cases, shrink=number == 0, shrink_executions=2))
        aside = [text for text in ran.notices if "an earlier campaign" in text]
        where = f"what an earlier campaign left in '{out}' is now in '{out / f'earlier.{number}'}'"
        assert aside == ([where] if number else [])
        kept = {path: text for path, text in files(out).items() if out / path not in others}
        left.append({path: text for path, text in kept.items() if not path.parts[0].startswith("earlier.")})
    for number in (1, 2):
        assert files(out / f"earlier.{number}") == left[number - 1]
    assert {path.parent for path in left[0]} == {Path(), Path("as-drawn")}
    assert all(path.read_text() == "something else" for path in others)
    resumed = run(subject, settings(out=out / "earlier.2", resume=True))
    assert resumed.judged == list(range(COUNT // 2, COUNT))


def test_what_another_subject_left_is_not_part_of_a_new_campaign(
    kit: Kit, run: Run, settings: Make, tmp_path: Path
) -> None:
    """Unless one run has campaigns of both."""
    out = tmp_path / "out"
    names = {
        "case": ("cases.journal", "postprocess-wrong-bytes-temporal-01234567.json"),
        "sequence": ("sequences.journal", "sequence-left-out-row-mamba-v1-01234567.json"),
    }
    (journal, finding) = names["case" if kit.name == "sequence" else "sequence"]
    out.mkdir()
    for name in (journal, finding):
        (out / name).write_text("of another subject")
    other = "case" if kit.name == "sequence" else "sequence"
    run(kit.right(), settings(cases=2, together=(kit.name, other)))
    assert (out / journal).exists()
    ran = run(kit.right(), settings(cases=2))
    assert f"what an earlier campaign left in '{out}' is now in '{out / 'earlier.1'}'" in ran.notices
    assert {path.name for path in (out / "earlier.1").iterdir()} >= {journal, finding}
    assert not (out / finding).exists()


def test_a_journal_that_another_campaign_is_writing_ends_this_one(kit: Kit, settings: Make) -> None:
    subject, given = kit.right(), settings(cases=3)
    other = Journal(given.out / subject.journal, subject.identity(), subject.noun)
    other.open(resume=False)
    with pytest.raises(OSError, match="another campaign is writing here: give another --out"):
        list(Campaign(subject, given).run())
    other.close()


# A journal that cannot be written.


@pytest.fixture
def small_files() -> Iterator[Callable[[int], None]]:
    """Call it with the most bytes that a file of this process may have from now on."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_journal_that_cannot_be_written_ends_a_campaign_with_its_summary(
    kit: Kit, run: Run, settings: Make, whole: Ran, small_files: Callable[[int], None]
) -> None:
    subject, given = kit.wrong(), settings()
    head, *lines = (whole.out / subject.journal).read_bytes().splitlines(keepends=True)
    padding = 20 * max(map(len, lines))
    subject.entry = padded(subject.entry, padding)  # type: ignore[method-assign]
    largest = max(len(text) for path, text in files(whole.out).items() if path.name != subject.journal)
    events: list[Event] = []

    def take_all() -> None:
        for event in Campaign(subject, given).run():
            events.append(event)
            if isinstance(event, CampaignStarted):  # its workers have no such limit
                small_files(max(largest, len(head)) + 3 * padding)

    with pytest.raises(OSError, match="is not saved, and the campaign ends") as caught:
        take_all()
    small_files(resource.RLIM_INFINITY)
    assert (caught.value.filename, caught.value.errno) == (str(given.out / subject.journal), errno.EFBIG)
    assert os.strerror(errno.EFBIG) in str(caught.value)
    summary = events[-1].summary  # type: ignore[union-attr]
    assert (summary.exit_status, 0 < summary.count < COUNT) == (2, True)
    assert run(kit.wrong(), settings(resume=True)).found == whole.found, "the line that was written in part is none"


def padded(entry_of: Callable[..., Entry], size: int) -> Callable[..., Entry]:
    """The same entries, each with a counter whose name is that long."""

    def longer(*arguments: Any) -> Entry:
        entry = entry_of(*arguments)
        return msgspec.structs.replace(entry, counters={**entry.counters, "x" * size: 1})

    return longer

"""The folder of a campaign: its configuration, its lock, and its statistics."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from harness.campaign import stats
from harness.campaign.campaign import Campaign
from harness.campaign.events import CaseJudged, Event, Notice
from harness.campaign.folder import CampaignFolder, InUse, NoConfiguration
from harness.campaign.settings import Settings
from harness.subject.summary import ending_of

if TYPE_CHECKING:
    from tests.harness.campaign.conftest import Kit, Ran

Run = Callable[..., "Ran"]
Make = Callable[..., Settings]


def row(out: Path, subject: str) -> dict[str, Any]:
    """What the statistics say of a campaign."""
    found: dict[str, Any] = json.loads((out / "campaign" / "stats.json").read_bytes())["campaigns"][subject]
    return found


def test_a_configuration_is_read_as_it_was_written(tmp_path: Path) -> None:
    options = {"target": "builtin", "seed": "7", "no_shrink": True}
    CampaignFolder(tmp_path / "out").write(options)
    assert CampaignFolder(tmp_path / "out").read().options == options


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"there is no \S+configuration.json: is it a campaign folder\?"),
        (b"", "is damaged"),
        (b'{"harness_campaign": 1, "options": {"seed": "7"', "is damaged"),
        (b"[" * 100_000, "is damaged"),
        (b'{"harness_campaign": 1, "options": {"seed": [7]}}', "is damaged"),
        (b'{"harness_campaign": 1, "options": {"seed": null}}', "is damaged"),
        (b'{"harness_campaign": 2, "options": {}}', "is of another version of the harness: it has the number 2"),
    ],
    ids=["none", "empty", "torn", "nested", "wrong type", "null", "version"],
)
def test_what_is_no_configuration_is_refused_in_one_line(tmp_path: Path, text: bytes | None, message: str) -> None:
    folder = CampaignFolder(tmp_path)
    if text is not None:
        folder.configuration_file.parent.mkdir()
        folder.configuration_file.write_bytes(text)
    with pytest.raises(NoConfiguration, match=message) as refused:
        folder.read()
    assert (len(str(refused.value).splitlines()), refused.value.exit_status) == (1, 2)
    assert text is None or folder.configuration_file.read_bytes() == text


def test_a_folder_in_use_is_refused_before_anything_is_loaded(kit: Kit, settings: Make) -> None:
    given = settings(cases=3)
    with CampaignFolder(given.out).locked():
        campaign = Campaign(kit.right(), given)
        with pytest.raises(InUse, match=f"another campaign is writing in '{given.out}'"):
            next(campaign.run())
    assert [path.name for path in given.out.iterdir()] == ["campaign"]


def test_the_lock_of_a_killed_process_is_none(tmp_path: Path) -> None:
    program = f"""
import os, signal
from pathlib import Path
from harness.campaign.folder import CampaignFolder
with CampaignFolder(Path({str(tmp_path)!r})).locked():
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    folder = CampaignFolder(tmp_path)
    folder.require_unused()
    with folder.locked(), pytest.raises(InUse), CampaignFolder(tmp_path).locked():
        raise AssertionError("two have the lock")


def test_the_statistics_say_how_it_ended(kit: Kit, run: Run, settings: Make) -> None:
    subject = kit.wrong()
    ran = run(subject, settings())
    found = row(ran.out, subject.name)
    assert (found["phase"], found["exit_status"], found["judged"], found["in_this_part"]) == ("ended", 1, 40, 40)
    assert (found["seed"], found["limit_cases"], found["target"]) == (subject.seed, 40, subject.target)
    assert [(one["signature"], one["first"], one["count"]) for one in found["findings"]] == [
        (signature, index, count) for signature, index, count, _ in ran.found
    ]
    assert all(Path(one["file"]).is_file() for one in found["findings"])


def test_they_are_rewritten_while_it_runs_and_a_line_reports_the_progress(
    settings: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stats, "STATS_SECONDS", 0.01)
    monkeypatch.setattr(stats, "PROGRESS_SECONDS", 0.02)
    numbers: Any = importlib.import_module("numbers_subject")
    given, lines = settings(), []
    seen: list[int] = []
    for event in Campaign(numbers.Numbers("vllm==0.33.0"), given, lines.append).run():
        if isinstance(event, CaseJudged) and event.index in (0, 20):
            deadline = time.monotonic() + 60
            while row(given.out, "number")["judged"] != event.done or not lines:
                assert time.monotonic() < deadline
                time.sleep(0.005)
            seen.append(row(given.out, "number")["judged"])
    assert seen == [1, 21]
    assert lines[0].startswith("judging: 1 number, ")
    assert ", 0 findings, after " in lines[0]


def test_those_of_another_subject_of_the_run_stay(run: Run, settings: Make) -> None:
    numbers: Any = importlib.import_module("numbers_subject")
    file = CampaignFolder(settings().out).stats_file
    file.parent.mkdir(parents=True)
    others = {"case": {"judged": 5}, "sequence": {"judged": 6}}
    file.write_text(json.dumps({"harness_stats": 1, "campaigns": others}))
    run(numbers.Numbers("builtin"), settings(together=("case",)))
    assert json.loads(file.read_bytes())["campaigns"].keys() == {"case", "number"}


def test_statistics_that_cannot_be_written_are_reported_once(
    run: Run, settings: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes, **_: Any) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(stats, "replace_file", full)
    monkeypatch.setattr(stats, "STATS_SECONDS", 0.01)
    numbers: Any = importlib.import_module("numbers_subject")
    ran = run(numbers.Numbers("builtin"), settings())
    assert [text for text in ran.notices if "cannot be written" in text] == [
        f"{ran.out / 'campaign' / 'stats.json'} cannot be written: No space left on device"
    ]
    assert ran.summary.count == 40


def test_a_torn_and_damaged_journal_is_reported(run: Run, settings: Make) -> None:
    numbers: Any = importlib.import_module("numbers_subject")
    subject = numbers.Numbers("builtin")
    before = run(subject, settings())
    journal = before.out / subject.journal
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:5], b"\xff" + lines[5][1:], *lines[6:40], lines[40][:-4]]))
    resumed = run(subject, settings(resume=True))
    assert (resumed.judged, resumed.found) == ([4, 39], before.found)
    assert f"{journal} ends in half a line, which is left out: the number is judged again" in resumed.notices
    unreadable = f"1 line of {journal} cannot be read, the first of them line 6: the number is judged again"
    assert unreadable in resumed.notices
    assert b"\xff" + lines[5][1:] in journal.read_bytes(), "nothing that was there is lost"


@pytest.mark.parametrize("left", [None, b"", b'{"target":"buil'])
def test_a_campaign_that_was_killed_before_its_first_case_starts(run: Run, settings: Make, left: bytes | None) -> None:
    numbers: Any = importlib.import_module("numbers_subject")
    given = settings(resume=True, or_start=True, options={"seed": "0"})
    CampaignFolder(given.out).write({"seed": "0"})
    if left is not None:
        (given.out / "numbers.journal").write_bytes(left)
    ran = run(numbers.Numbers("builtin"), given)
    assert ran.judged == list(range(40))
    assert CampaignFolder(given.out).read().options == {"seed": "0"}
    assert left is None or (given.out / "earlier.1" / "numbers.journal").read_bytes() == left


def test_a_budget_of_nothing_sorts_out_what_was_found(kit: Kit, run: Run, settings: Make, whole: Ran) -> None:
    run(kit.wrong(), settings())
    resumed = run(kit.wrong(), settings(resume=True, cases=None, seconds=0.0))
    assert (resumed.judged, resumed.found, resumed.summary.count) == ([], whole.found, 40)


# Interrupts.


@pytest.fixture
def interruption(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A new one, in place of that of the process."""
    module: Any = importlib.import_module("harness.interruption")
    fresh = module.Interruption()
    for name in ("campaign", "following"):
        monkeypatch.setattr(f"harness.campaign.{name}.INTERRUPTION", fresh)
    return fresh


def test_an_interrupt_ends_with_the_cases_that_were_being_judged(
    kit: Kit, run: Run, settings: Make, whole: Ran, interruption: Any
) -> None:
    """Nothing is torn: what was judged is in journal and summary, and the campaign is resumed to the same end."""
    following: Any = importlib.import_module("harness.campaign.following")
    given, events = settings(workers=2), []

    def handle(event: Event) -> None:
        events.append(event)
        if isinstance(event, CaseJudged) and event.done == 3:
            interruption.take(2)

    with pytest.raises(KeyboardInterrupt):
        following.follow(Campaign(kit.wrong(), given), handle)
    summary: Any = events[-1].summary
    judged = [event.index for event in events if isinstance(event, CaseJudged)]
    assert 3 <= len(judged) < 40
    assert (summary.count, summary.exit_status) == (len(judged), 130)
    assert row(given.out, kit.wrong().name)["ended_early"] == "interrupted"
    for name in ("campaign", "following"):
        importlib.import_module(f"harness.campaign.{name}").INTERRUPTION = type(interruption)()
    resumed = run(kit.wrong(), settings(resume=True))
    assert sorted([*judged, *resumed.judged]) == list(range(40)), "none is lost, and none was judged twice"
    assert resumed.found == whole.found


def test_an_interrupt_while_findings_are_shrunk_keeps_them_as_drawn(
    kit: Kit, settings: Make, whole: Ran, interruption: Any
) -> None:
    following: Any = importlib.import_module("harness.campaign.following")
    events: list[Event] = []

    def handle(event: Event) -> None:
        events.append(event)
        if isinstance(event, Notice) and event.text.startswith("shrinking 1"):
            interruption.take(2)

    with pytest.raises(KeyboardInterrupt):
        following.follow(Campaign(kit.wrong(), settings(shrink=True)), handle)
    summary: Any = events[-1].summary  # type: ignore[union-attr]
    assert summary.exit_status == 130
    assert [(one.signature, one.cases) for one in summary.compared()] == [
        (signature, count) for signature, _, count, _ in whole.found
    ]


def test_a_second_interrupt_ends_at_once(settings: Make, interruption: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = importlib.import_module("harness.interruption")
    monkeypatch.setattr(module, "SAME_SECONDS", 0.0)
    numbers: Any = importlib.import_module("numbers_subject")
    following: Any = importlib.import_module("harness.campaign.following")
    events: list[Event] = []

    def handle(event: Event) -> None:
        events.append(event)
        if isinstance(event, CaseJudged) and event.done == 3:
            interruption.take(2)
            interruption.take(2)

    with pytest.raises(KeyboardInterrupt):
        following.follow(Campaign(numbers.Numbers("builtin"), settings()), handle)
    assert isinstance(events[-1], CaseJudged)
    assert row(settings().out, "number")["ended_early"] == "interrupted"


def test_how_a_campaign_ended_is_kept_and_forgotten_when_it_continues(run: Run, settings: Make) -> None:
    numbers: Any = importlib.import_module("numbers_subject")
    subject = numbers.Numbers("builtin")
    ran = run(subject, settings())
    folder = CampaignFolder(ran.out)
    ((_, kept),) = folder.endings()
    assert msgspec.json.encode(kept.ending) == msgspec.json.encode(ending_of(ran.summary))
    assert (kept.folder, kept.ending.count) == (str(ran.out), 40)
    events = Campaign(subject, settings(cases=60, resume=True)).run()
    next(event for event in events if isinstance(event, CaseJudged))
    assert folder.endings() == [], "it has not ended"
    events.close()
    assert run(subject, settings(cases=60, resume=True)).summary.count == 60
    assert [kept.ending.count for _, kept in folder.endings()] == [60]


def test_the_next_campaign_moves_how_one_ended_aside(run: Run, settings: Make) -> None:
    numbers: Any = importlib.import_module("numbers_subject")
    ran = run(numbers.Numbers("builtin"), settings())
    run(numbers.Numbers("builtin"), settings(cases=20))
    assert [kept.ending.count for _, kept in CampaignFolder(ran.out).endings()] == [20]
    assert [kept.ending.count for _, kept in CampaignFolder(ran.out / "earlier.1").endings()] == [40]


def test_an_ending_that_cannot_be_written_is_reported(
    run: Run, settings: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: CampaignFolder, subject: str, ending: object, at: str) -> None:
        raise OSError(28, "No space left on device", str(self.path))

    monkeypatch.setattr(CampaignFolder, "write_ending", full)
    numbers: Any = importlib.import_module("numbers_subject")
    ran = run(numbers.Numbers("builtin"), settings())
    assert f"how the campaign ended is not saved: {ran.out}: No space left on device" in ran.notices
    assert ran.summary.count == 40


def test_statistics_name_the_rarest_regime_and_how_long_one_takes() -> None:
    rare = stats.rarest_regime({"often": 50, "seldom": 2, "also-seldom": 2}, 100, 5.0)
    assert rare == stats.RarestRegime("also-seldom", 2, 10.0), "one in 50 cases, of which 5 come in a second"
    assert stats.rarest_regime({}, 100, 5.0) is None
    assert stats.rarest_regime({"one": 1}, 100, 0.0) == stats.RarestRegime("one", 1, None)
    assert stats.unreached_seconds(300, 5.0) == 20.0
    assert stats.unreached_seconds(0, 0.0) is None


@pytest.mark.long
def test_statistics_say_where_the_time_of_workers_went(
    monkeypatch: pytest.MonkeyPatch, executor_name: str, run: Callable[..., Ran], settings: Callable[..., Settings]
) -> None:
    subject = importlib.import_module("tests.harness.campaign.conftest").CaseKit(monkeypatch, executor_name).wrong()
    began = time.monotonic()
    ran = run(subject, settings(workers=2, shrink=True, shrink_executions=2))
    whole = time.monotonic() - began
    found = row(ran.out, "case")
    spent = found["worker_seconds"]
    assert list(spent) == ["load", "draw", *("build", "run", "oracle", "compare", "relations"), "other", "sort out"]
    assert spent["load"] > 0
    assert spent["run"] > 0
    assert spent["sort out"] <= whole
    assert sum(spent.values()) <= 2 * whole + 1.0
    assert found["rarest"]["cases"] >= 1
    assert found["rarest"]["name"] in subject.regimes
    assert found["unreached_seconds"] > 0


def test_statistics_of_an_earlier_version_are_read() -> None:
    """They do not have what came later."""
    known = {field.name: field for field in msgspec.structs.fields(stats.Stats)}
    assert not any(known[name].required for name in ("rarest", "unreached_seconds", "worker_seconds"))

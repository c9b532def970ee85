"""Campaigns of sequences: what ends one, what does not, and going on where one ended. No scheduler is needed: children
are threads that serve as children do, and a table says what each sequence gives."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import threading
from collections.abc import Callable, Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
import pytest

from harness.case import Case, decode_case
from harness.case.sequence import Abort, Event, Finish, SequenceCase, Step, encode_sequence
from harness.generators.sequences.configurations import Pins
from harness.kernels.targets.vllm.scheduling.sources import WholeTree
from harness.oracles.meaning.device import NOBODY
from harness.oracles.meaning.violation import Violation
from harness.repro import SequenceRepro
from harness.sequences.campaign import JOURNAL, SequenceCampaign
from harness.sequences.controls import Controls
from harness.sequences.findings import AS_DRAWN, Findings
from harness.sequences.journal import CannotGoOn, Entry, Journal
from harness.sequences.kernels import Beside, KernelChoice
from harness.sequences.known import DEFAULT_FIXES
from harness.sequences.recipe import SequenceRecipe, sequence_at
from harness.sequences.result import RunResult
from harness.sequences.settings import SequenceSettings
from harness.sequences.summary import SequenceSummary
from harness.sequences.worker import SequenceWorker
from harness.worker.silence import Silence

RECIPE = SequenceRecipe(seed=5, steps=4)
COUNT = 30
ALIKE = Controls(fixes=DEFAULT_FIXES)
"""With them, all violations look alike."""
ROOT = Path(__file__).resolve().parents[3]


class ThreadProcess(SequenceWorker):
    """A child that is a thread."""

    def _start(self) -> None:
        self.at = -1
        self._silence = Silence(os.getpid())
        self.connection, theirs = Pipe()
        threading.Thread(target=_serve, args=(theirs,), daemon=True).start()

    def close(self) -> None:
        self.connection.close()


def _serve(connection: Connection) -> None:
    with contextlib.suppress(OSError, EOFError):
        child.serve(connection, "vllm==0.33.0", Beside())


class Table:
    """What each sequence gives, by index: one of `wrong` is a violation, one of `broken` a mistake of the harness."""

    def __init__(self) -> None:
        self.wrong: set[int] = set()
        self.broken: set[int] = set()
        self.breaks_on_others = False
        self.mistake: BaseException = IndexError("a mistake of ours")
        self.asked: list[int] = []
        self.counters: dict[str, int] = {}
        self._indices = {encode_sequence(sequence_at(RECIPE, index)): index for index in range(COUNT)}

    def run(self, case: SequenceCase, *_: object) -> RunResult:
        index = self._indices.get(encode_sequence(case), -1)
        self.asked.append(index)
        if index in self.broken or (index < 0 and self.breaks_on_others):
            raise self.mistake
        violation = None
        if index in self.wrong or index < 0:
            violation = Violation("wrong-state-read", "conv", 3, "request 1", 1, 2, 3, NOBODY, "this", "that")
        return RunResult(violation, None, 0, 4, 0.01, {"steps": 4, "rows": index, **self.counters})


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    table = Table()
    monkeypatch.setattr(child, "_run", table.run)
    monkeypatch.setattr(child, "_effects", lambda connection, fixes: connection.send(("effects", [fixes[0]])))
    monkeypatch.setattr("harness.kernels.targets.vllm.scheduling.loading.load", lambda target: WholeTree(ROOT, ""))
    monkeypatch.setattr("harness.sequences.campaign.SequenceWorker", ThreadProcess)
    return table


def settings(out: Path, **changes: object) -> SequenceSettings:
    plain = {"target": "vllm==0.33.0", "recipe": RECIPE, "controls": Controls(), "sequences": COUNT, "shrink": False}
    return SequenceSettings(out=out, **{**plain, **changes})  # type: ignore[arg-type]


def finish(given: SequenceSettings) -> tuple[SequenceSummary, list[str]]:
    told: list[str] = []
    return SequenceCampaign(given, told.append).run(), told


def same(one: SequenceSummary, other: SequenceSummary) -> bool:
    """All but times and folders."""
    plain = [msgspec.structs.replace(x, seconds=0, steps_per_second=0) for x in (one, other)]
    for summary in plain:
        for finding in summary.findings:
            finding.repro = Path(finding.repro or "").name
    return plain[0] == plain[1]


def test_what_the_harness_cannot_run_is_kept_and_the_campaign_goes_on(table: Table, tmp_path: Path) -> None:
    table.broken, table.wrong = {2, 7, 29}, {11, 12}
    summary, told = finish(settings(tmp_path, workers=2))
    assert (summary.sequences, summary.harness_failures, summary.exit_status) == (COUNT - 3, 3, 4)
    assert [finding.first_sequence for finding in summary.findings] == [11]
    names = {f"seed-5-sequence-{index}" for index in table.broken}
    kept = tmp_path / "harness-failures"
    assert {path.name for path in kept.iterdir()} == {f"{name}{end}" for name in names for end in (".txt", ".json")}
    for index in table.broken:
        name = f"seed-5-sequence-{index}"
        assert (kept / f"{name}.json").read_bytes().strip() == encode_sequence(sequence_at(RECIPE, index))
        assert "a mistake of ours" in (kept / f"{name}.txt").read_text()
        assert any(f"sequence {index}: IndexError: a mistake of ours" in line for line in told)
    table.broken = set()
    whole, _ = finish(settings(tmp_path / "whole"))
    mended, _ = finish(settings(tmp_path, resume=True))
    assert mended.exit_status == 1
    assert same(mended, whole), "a mended harness runs what it could not before"


def test_an_exit_of_ours_is_a_failure_of_the_harness(table: Table, tmp_path: Path) -> None:
    table.broken, table.mistake = {3}, SystemExit(0)
    summary, told = finish(settings(tmp_path))
    assert (summary.sequences, summary.harness_failures, summary.exit_status) == (COUNT - 1, 1, 4)
    assert any("the harness itself failed in sequence 3: SystemExit: 0" in line for line in told)


def test_a_harness_that_fails_again_and_again_ends_the_campaign(table: Table, tmp_path: Path) -> None:
    table.broken = set(range(4, 20))
    summary, told = finish(settings(tmp_path))
    assert (summary.sequences, summary.harness_failures, summary.exit_status) == (4, 5, 4)
    assert any("ends early" in line for line in told)


def test_a_finding_stays_as_drawn_if_the_harness_fails_while_it_is_shrunk(table: Table, tmp_path: Path) -> None:
    table.wrong, table.breaks_on_others = {3}, True
    summary, told = finish(settings(tmp_path, shrink=True))
    (finding,) = summary.findings
    assert (summary.harness_failures, summary.exit_status) == (1, 4)
    assert finding.repro is not None
    saved = msgspec.json.decode(Path(finding.repro).read_bytes(), type=SequenceRepro)
    assert (saved.sequence, saved.shrink) == (sequence_at(RECIPE, 3), None)
    assert any("stays as drawn" in line for line in told)
    assert not finding.minimal
    assert finding.lines[1] in told


@pytest.fixture
def small_files() -> Iterator[Callable[[int], None]]:
    """Call it with the most bytes that a file of this process may have from now on."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_journal_that_cannot_be_written_ends_a_campaign_with_its_summary(
    table: Table, tmp_path: Path, small_files: Callable[[int], None]
) -> None:
    table.wrong = {1, 2, 25}
    whole, _ = finish(settings(tmp_path / "whole", controls=ALIKE))
    (drawn,) = (tmp_path / "whole" / AS_DRAWN).iterdir()
    table.counters = {f"a counter of some length with number {number}": 1 for number in range(40)}
    small_files(drawn.stat().st_size + 5000)  # a finding fits, as do some lines
    campaign = SequenceCampaign(settings(tmp_path, controls=ALIKE), lambda _: None)
    summary = campaign.run()
    small_files(resource.RLIM_INFINITY)
    table.counters = {}
    assert (summary.exit_status, summary.findings[0].repro) == (2, str(tmp_path / AS_DRAWN / drawn.name))
    assert 1 < summary.sequences < COUNT
    assert campaign.unsaved is not None
    assert campaign.unsaved.filename == str(tmp_path / JOURNAL)
    assert "is not saved, and the campaign ends" in campaign.unsaved.strerror
    resumed, _ = finish(settings(tmp_path, resume=True, controls=ALIKE))
    resumed.counters = {name: resumed.counters[name] for name in whole.counters}
    assert same(resumed, whole), "the line that was written in part is none"


def test_a_kernel_case_is_written_whole_or_not_at_all(
    tmp_path: Path, small_files: Callable[[int], None], make_case: Callable[..., Case]
) -> None:
    keep = child._Keeper(tmp_path, RECIPE, 7)
    keep(make_case())
    small_files(100)
    with pytest.raises(child._NotKept) as failed:
        keep(make_case())
    small_files(resource.RLIM_INFINITY)
    assert failed.value.args[3] == str(tmp_path / "sequence-5-7-001.json")
    assert [path.name for path in tmp_path.iterdir()] == ["sequence-5-7-000.json"]
    assert decode_case((tmp_path / "sequence-5-7-000.json").read_bytes()) == make_case()


@pytest.mark.parametrize("when", [AS_DRAWN, "minimal"])
def test_a_finding_that_cannot_be_written_ends_a_campaign_with_its_summary(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    replace = os.replace

    def full(source: Path, destination: Path) -> None:
        if (Path(destination).parent.name == AS_DRAWN) == (when == AS_DRAWN):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, destination)

    table.wrong = {4, 9}
    with monkeypatch.context() as patch:
        patch.setattr("harness.files.os.replace", full)
        campaign = SequenceCampaign(settings(tmp_path, controls=ALIKE), lambda _: None)
        summary = campaign.run()
    assert (summary.exit_status, summary.sequences) == (2, COUNT if when == "minimal" else 4)
    assert [(finding.first_sequence, finding.sequences, finding.repro) for finding in summary.findings] == [
        (4, 2, str(next((tmp_path / AS_DRAWN).glob("sequence-*.json")))) if when == "minimal" else (4, 1, None)
    ]
    assert campaign.unsaved is not None
    assert str(campaign.unsaved.filename).startswith(
        str((tmp_path if when == "minimal" else tmp_path / AS_DRAWN) / "sequence-")
    )
    assert "No space left on device; sequence/meaning/wrong-state-read/mamba/-" in campaign.unsaved.strerror
    assert sorted(path.name for path in tmp_path.iterdir()) == [AS_DRAWN, JOURNAL]
    resumed, _ = finish(settings(tmp_path, resume=True, controls=ALIKE))
    assert [(one.first_sequence, one.sequences) for one in resumed.findings] == [(4, 2)]


def test_a_campaign_goes_on_where_its_journal_has_holes_and_a_torn_end(table: Table, tmp_path: Path) -> None:
    table.wrong = {0, 6, 14, 22}
    whole, _ = finish(settings(tmp_path, controls=ALIKE))
    journal = tmp_path / JOURNAL
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:3], *lines[6:8], lines[16], *lines[20:24], lines[25][:-9]]))
    known = {0, 1, 5, 6, 15, 19, 20, 21, 22}
    table.asked.clear()
    resumed, told = finish(settings(tmp_path, resume=True, workers=2, controls=ALIKE))
    assert same(resumed, whole)
    assert set(table.asked) == set(range(COUNT)) - known | {0}, "of those that look alike, the first is run again"
    lines_after = journal.read_bytes().splitlines()
    assert sorted(msgspec.json.decode(line)["index"] for line in lines_after[1:]) == list(range(COUNT))
    assert "going on after sequence 22: 9 were run before" in told


@pytest.mark.parametrize("events", [(), (Abort(request=5), Finish(request=9), Step())], ids=["none", "for nobody"])
def test_events_that_leave_nothing_to_do_are_no_pass(scheduler: SequenceWorker, events: tuple[Event, ...]) -> None:
    case = msgspec.structs.replace(sequence_at(SequenceRecipe(0), 0), events=events)
    assert scheduler.check(case, Controls()).skipped == "the engine had nothing to do: no step was run"


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"recipe": SequenceRecipe(seed=6, steps=4)}, "seed 5, not 6"),
        ({"target": "vllm==0.32.0"}, "target vllm==0.33.0, not vllm==0.32.0"),
        ({"recipe": SequenceRecipe(5, Pins(runner="V1"), 4)}, "pins runner none, not V1"),
        ({"controls": Controls(fixes=("fresh-rows",))}, "fixes none, not fresh-rows"),
        ({"kernels": KernelChoice("builtin", "native")}, "kernels executor none, not native"),
    ],
    ids=["seed", "target", "pins", "fixes", "kernels"],
)
def test_nothing_goes_on_from_the_journal_of_another_campaign(
    table: Table, tmp_path: Path, changes: dict[str, object], difference: str
) -> None:
    finish(settings(tmp_path, sequences=3))
    before = (tmp_path / JOURNAL).read_bytes()
    table.asked.clear()
    with pytest.raises(CannotGoOn) as refused:
        finish(settings(tmp_path, resume=True, **changes))
    assert f"{tmp_path / JOURNAL} is another campaign's: " in str(refused.value)
    assert difference in str(refused.value)
    assert "\n" not in str(refused.value)
    assert [path.name for path in tmp_path.iterdir()] == [JOURNAL]
    assert ((tmp_path / JOURNAL).read_bytes(), table.asked) == (before, [])


@pytest.mark.parametrize("holds", [None, b"", b"[1]\n", b'{"seed": 5}\n'])
def test_nor_from_none(table: Table, tmp_path: Path, holds: bytes | None) -> None:
    out = tmp_path / "out"
    if holds is not None:
        out.mkdir()
        (out / JOURNAL).write_bytes(holds)
    with pytest.raises(CannotGoOn):
        finish(settings(out, resume=True))
    assert out.exists() == (holds is not None)


def test_a_new_campaign_moves_what_is_there_aside(table: Table, tmp_path: Path) -> None:
    """Whole: the earlier one can be gone on with from where it is. What is no campaign's of sequences stays."""
    table.wrong, table.broken = {1, 4}, {2}
    others = [tmp_path / "wrong-group.json", tmp_path / AS_DRAWN / "wrong-group.json", tmp_path / "sequence.txt"]
    (tmp_path / AS_DRAWN).mkdir()
    for path in others:
        path.write_text("something else")
    left, summaries = [], []
    for number in range(3):
        summary, told = finish(settings(tmp_path, sequences=5 - number, controls=ALIKE))
        aside = [line for line in told if "an earlier campaign" in line]
        where = f"what an earlier campaign left in {tmp_path} is in {tmp_path / f'earlier.{number}'} from now on"
        assert aside == ([where] if number else [])
        kept = (path for path in tmp_path.rglob("*") if path.is_file() and path not in others)
        files = {path.relative_to(tmp_path): path.read_bytes() for path in kept if "earlier." not in str(path)}
        assert len(files) == 5, "a journal, a finding twice, and a failure with its sequence"
        left.append(files)
        summaries.append(summary)
    for number in (1, 2):
        folder = tmp_path / f"earlier.{number}"
        found = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        assert found == left[number - 1]
    assert all(path.read_text() == "something else" for path in others)
    table.broken = set()
    again, _ = finish(settings(tmp_path / "earlier.1", sequences=6, resume=True, controls=ALIKE))
    assert (again.sequences, again.harness_failures) == (6, 0)
    assert [one.first_sequence for one in again.findings] == [1]


def test_a_finding_is_saved_before_anything_else(table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process may be killed at any moment: what the journal tells of is in a file."""
    table.wrong = {4, 9}
    seen: list[list[str]] = []
    append = Journal.append

    def look(journal: Journal, entry: Entry) -> None:
        seen.append(sorted(path.name for path in tmp_path.glob("as-drawn/*")))
        append(journal, entry)

    monkeypatch.setattr(Journal, "append", look)
    _, told = finish(settings(tmp_path, controls=ALIKE))
    (name,) = seen[4]
    assert (seen[3], seen[-1]) == ([], [name])
    assert f"  saved as drawn: {tmp_path / AS_DRAWN / name}" in told
    saved = msgspec.json.decode((tmp_path / AS_DRAWN / name).read_bytes(), type=SequenceRepro)
    assert (saved.sequence, saved.origin.index) == (sequence_at(RECIPE, 4), 4)


def test_what_stands_for_a_finding_as_drawn_is_its_lowest_sequence(table: Table, tmp_path: Path) -> None:
    table.wrong = {3, 20}
    given = settings(tmp_path, controls=ALIKE)
    violation = table.run(sequence_at(RECIPE, 3))
    findings = Findings(given, lambda _: None, lambda _: None, lambda *_: "")
    for index in (20, 3, 21):
        findings.note(index, sequence_at(RECIPE, min(index, 20)), violation)
    (drawn,) = (tmp_path / AS_DRAWN).iterdir()
    assert msgspec.json.decode(drawn.read_bytes(), type=SequenceRepro).origin.index == 3
    assert findings.violations == 3

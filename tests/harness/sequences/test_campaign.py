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
from harness.check.silence import Silence
from harness.kernels.targets.vllm.scheduling.sources import WholeTree
from harness.oracles.meaning.device import NOBODY
from harness.oracles.meaning.violation import Violation
from harness.repro.sequences import SequenceRepro
from harness.sequences import child
from harness.sequences.campaign import JOURNAL, SequenceCampaign
from harness.sequences.controls import Controls
from harness.sequences.kernels import Beside
from harness.sequences.known import DEFAULT_FIXES
from harness.sequences.process import SequenceProcess
from harness.sequences.recipe import SequenceRecipe, sequence_at
from harness.sequences.result import RunResult
from harness.sequences.settings import SequenceSettings
from harness.sequences.summary import SequenceSummary

RECIPE = SequenceRecipe(seed=5, steps=4)
COUNT = 30
ROOT = Path(__file__).resolve().parents[3]


class ThreadProcess(SequenceProcess):
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
        self.asked: list[int] = []
        self._indices = {encode_sequence(sequence_at(RECIPE, index)): index for index in range(COUNT)}

    def run(self, case: SequenceCase, *_: object) -> RunResult:
        index = self._indices.get(encode_sequence(case), -1)
        self.asked.append(index)
        if index in self.broken or (index < 0 and self.breaks_on_others):
            raise IndexError("a mistake of ours")
        violation = None
        if index in self.wrong or index < 0:
            violation = Violation("wrong-state-read", "conv", 3, "request 1", 1, 2, 3, NOBODY, "this", "that")
        return RunResult(violation, None, 0, 4, 0.01, {"steps": 4, "rows": index})


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    table = Table()
    monkeypatch.setattr(child, "_run", table.run)
    monkeypatch.setattr("harness.kernels.targets.vllm.scheduling.loading.load", lambda target: WholeTree(ROOT, ""))
    monkeypatch.setattr("harness.sequences.campaign.SequenceProcess", ThreadProcess)
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
    whole, _ = finish(settings(tmp_path / "whole"))
    small_files((tmp_path / "whole" / JOURNAL).stat().st_size // 2)
    campaign = SequenceCampaign(settings(tmp_path), lambda _: None)
    summary = campaign.run()
    small_files(resource.RLIM_INFINITY)
    assert (summary.exit_status, summary.findings[0].repro) == (2, None)
    assert 0 < summary.sequences < COUNT
    assert campaign.unsaved is not None
    assert campaign.unsaved.filename == str(tmp_path / JOURNAL)
    assert "is not saved, and the campaign ends" in campaign.unsaved.strerror
    resumed, _ = finish(settings(tmp_path, resume=True))
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


def test_a_finding_that_cannot_be_written_ends_a_campaign_with_its_summary(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    table.wrong = {4, 9}
    with monkeypatch.context() as patch:
        patch.setattr("harness.repro.store.os.replace", full)
        campaign = SequenceCampaign(settings(tmp_path), lambda _: None)
        summary = campaign.run()
    assert (summary.exit_status, summary.sequences) == (2, COUNT)
    assert [(finding.first_sequence, finding.sequences, finding.repro) for finding in summary.findings] == [
        (4, 2, None)
    ]
    assert campaign.unsaved is not None
    assert str(campaign.unsaved.filename).startswith(str(tmp_path / "sequence-"))
    assert "No space left on device; sequence/meaning/wrong-state-read/mamba/-" in campaign.unsaved.strerror
    assert sorted(path.name for path in tmp_path.iterdir()) == [JOURNAL]


def test_a_campaign_goes_on_where_its_journal_has_holes_and_a_torn_end(table: Table, tmp_path: Path) -> None:
    table.wrong = {0, 6, 14, 22}
    controls = Controls(fixes=DEFAULT_FIXES)  # so that all violations look alike
    whole, _ = finish(settings(tmp_path, controls=controls))
    journal = tmp_path / JOURNAL
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:3], *lines[6:8], lines[16], *lines[20:24], lines[25][:-9]]))
    known = {0, 1, 5, 6, 15, 19, 20, 21, 22}
    table.asked.clear()
    resumed, told = finish(settings(tmp_path, resume=True, workers=2, controls=controls))
    assert same(resumed, whole)
    assert set(table.asked) == set(range(COUNT)) - known | {0}, "of those that look alike, the first is run again"
    lines_after = journal.read_bytes().splitlines()
    assert sorted(msgspec.json.decode(line)["index"] for line in lines_after[1:]) == list(range(COUNT))
    assert not any("another campaign" in line for line in told)
    _, told = finish(settings(tmp_path, resume=True, recipe=SequenceRecipe(seed=6, steps=4)))
    assert any("another campaign" in line for line in told)


@pytest.mark.parametrize("events", [(), (Abort(request=5), Finish(request=9), Step())], ids=["none", "for nobody"])
def test_events_that_leave_nothing_to_do_are_no_pass(scheduler: SequenceProcess, events: tuple[Event, ...]) -> None:
    case = msgspec.structs.replace(sequence_at(SequenceRecipe(0), 0), events=events)
    assert scheduler.check(case, Controls()).skipped == "the engine had nothing to do: no step was run"

"""A corpus is replayed before a run, what fails in it counts unless it is muted, and it is kept small."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from harness.campaign.corpus import (
    CorpusFile,
    ReplayedFile,
    add_to_corpus,
    duplicates,
    enough,
    read_corpus,
    replay_corpus,
)
from harness.campaign.expectations import expectations
from harness.campaign.settings import Settings
from harness.case import InvalidCase
from harness.subject.standing import CorpusAnswer
from harness.subject.subject import Setting
from harness.worker.process import WorkerProcess

if TYPE_CHECKING:
    from tests.harness.campaign.conftest import NumberKit, Ran

Run = Callable[..., "Ran"]
Make = Callable[..., Settings]


@pytest.fixture
def corpus(numbers: NumberKit, run: Run, settings: Make, tmp_path: Path) -> Path:
    """A corpus of two files, one of them in a folder."""
    found = run(numbers.wrong(), settings(out=tmp_path / "before", shrink=True))
    first, second = (file for file in sorted(found.out.glob("*.json")))
    (tmp_path / "corpus" / "more").mkdir(parents=True)
    (tmp_path / "corpus" / "a.json").write_bytes(first.read_bytes())
    (tmp_path / "corpus" / "more" / "b.json").write_bytes(second.read_bytes())
    return tmp_path / "corpus"


def knowing(replayed: list[ReplayedFile], known: Path | None = None) -> dict[str, Any]:
    return {"expectations": msgspec.structs.replace(expectations(known, None), corpus=replayed)}


def test_all_files_of_a_target_are_replayed_by_one_worker(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    init = WorkerProcess.__init__

    def counted(worker: WorkerProcess, *arguments: Any, **named: Any) -> None:
        started.append("one")
        init(worker, *arguments, **named)

    monkeypatch.setattr(WorkerProcess, "__init__", counted)
    replayed = replay_corpus(read_corpus(corpus), Setting(target="builtin", sweeping=True))
    answers = [(one.file.path.name, one.replay.replayed.answer) for one in replayed if one.replay is not None]
    assert answers == [("a.json", "FAILED"), ("b.json", "FAILED")]
    assert started == ["one"]


def test_a_file_that_fails_makes_status_1_although_nothing_was_found(
    corpus: Path, numbers: NumberKit, run: Run, settings: Make
) -> None:
    replayed = replay_corpus(read_corpus(corpus), Setting(target="builtin", sweeping=True))
    ran = run(numbers.right(), settings(**knowing(replayed)))
    assert ran.summary.findings == []
    assert ran.summary.exit_status == 1
    assert [one.answer for one in ran.summary.standing.corpus] == ["FAILED", "FAILED"]
    assert ran.summary.standing.problems == [
        f"{corpus / 'a.json'} of the corpus FAILED: unlucky",
        f"{corpus / 'more' / 'b.json'} of the corpus FAILED: unlucky-too",
    ]


def test_what_is_fixed_or_muted_does_not_count(
    corpus: Path, numbers: NumberKit, run: Run, settings: Make, tmp_path: Path
) -> None:
    fixed = replay_corpus(read_corpus(corpus), Setting(target="vllm==0.32.0", sweeping=True))
    ran = run(numbers.right(), settings(out=tmp_path / "fixed", **knowing(fixed)))
    assert ran.summary.exit_status == 0
    assert {one.answer for one in ran.summary.standing.corpus} == {"FIXED"}
    known = tmp_path / "known.toml"
    known.write_text('[[finding]]\nsignature = "unlucky"\nreason = "known"\none_in = 1\ndrawn_as = "00000000"\n')
    failed = replay_corpus(read_corpus(corpus), Setting(target="builtin", sweeping=True))
    ran = run(numbers.right(), settings(out=tmp_path / "muted", **knowing(failed, known)))
    assert [one.muted for one in ran.summary.standing.corpus] == ["known", None]
    assert ran.summary.exit_status == 1


def test_a_mute_whose_finding_occurs_in_the_corpus_is_needed(
    corpus: Path, numbers: NumberKit, run: Run, settings: Make, tmp_path: Path
) -> None:
    from harness.campaign.situation import journaled

    before = run(numbers.right(), settings(out=tmp_path / "one"))
    journal = journaled(before.out, type(numbers.right()))
    assert journal is not None
    known = tmp_path / "known.toml"
    entry = f'[[finding]]\nsignature = "unlucky"\nreason = "known"\none_in = 1\ndrawn_as = "{journal.drawn_as}"\n'
    known.write_text(entry)
    without = run(numbers.right(), settings(out=tmp_path / "two", **knowing([], known)))
    assert [one.mute for one in without.summary.standing.needless] == ["unlucky"]
    failed = replay_corpus(read_corpus(corpus)[:1], Setting(target="builtin", sweeping=True))
    ran = run(numbers.right(), settings(out=tmp_path / "three", **knowing(failed, known)))
    assert (ran.summary.standing.needless, ran.summary.exit_status) == ([], 0)


def test_a_file_that_says_nothing_about_the_target_is_skipped(
    corpus: Path, numbers: NumberKit, run: Run, settings: Make
) -> None:
    replayed = replay_corpus(read_corpus(corpus)[:1], Setting(target="vllm==0.29.0", sweeping=True))
    ran = run(numbers.right(), settings(**knowing(replayed)))
    skipped = CorpusAnswer(file=str(corpus / "a.json"), answer="SKIPPED", reason="it has no numbers")
    assert ran.summary.standing.corpus == [skipped]
    assert ran.summary.exit_status == 0
    lines = [f"{line.word} {line.text}" for line in ran.summary.standing.lines([])]
    assert lines == [
        " 1 file of the corpus replayed: 0 FAILED, 0 FIXED, 1 SKIPPED",
        f"skipped {corpus / 'a.json'}: it has no numbers",
    ]


def test_what_is_no_repro_file_is_refused(corpus: Path, tmp_path: Path) -> None:
    (corpus / "more" / "c.json").write_text("{}")
    with pytest.raises(InvalidCase, match=r"c\.json: not a repro file"):
        read_corpus(corpus)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidCase, match="no repro file in this folder"):
        read_corpus(tmp_path / "empty")


def test_the_same_case_is_added_once(corpus: Path, tmp_path: Path) -> None:
    files = read_corpus(corpus)
    there: list[CorpusFile] = []
    for file in files:
        path = add_to_corpus(file, tmp_path / "new", there)
        assert path is not None
        there.append(file._replace(path=path))
    assert add_to_corpus(files[0], tmp_path / "new", there) is None
    assert [file.repro for file in read_corpus(tmp_path / "new")] == [file.repro for file in files]
    assert duplicates(there) == []
    assert duplicates([*there, files[1]]) == [(there[1], files[1])]


def test_another_case_of_the_same_name_gets_another_one(corpus: Path, tmp_path: Path) -> None:
    first, second = read_corpus(corpus)
    there = [second._replace(path=tmp_path / "new" / first.repro.file_name)]
    path = add_to_corpus(first, tmp_path / "new", there)
    assert path == tmp_path / "new" / f"{Path(first.repro.file_name).stem}.2.json"


def of(**reached: str) -> dict[str, frozenset[str]]:
    return {name: frozenset(what) for name, what in reached.items()}


@pytest.mark.parametrize(
    ("reached", "sizes", "chosen"),
    [
        ({}, {}, []),
        (of(a="xy", b="x", c="y"), {}, ["a"]),
        (of(a="x", b="y", c="xy"), {}, ["c"]),
        (of(a="x", b="x"), {}, ["a"]),
        (of(a="x", b="x"), {"a": 2}, ["b"]),
        (of(a="xy", b="yz", c="z"), {}, ["a", "b"]),
        # The largest one is taken first, and is needless once the others are there.
        (of(a="uvwx", b="uvy", c="wxz"), {"a": 9}, ["b", "c"]),
        (of(a="", b="x"), {}, ["b"]),
    ],
)
def test_the_files_that_are_enough(
    reached: dict[str, frozenset[str]], sizes: dict[str, int], chosen: list[str]
) -> None:
    given = {name: sizes.get(name, 1) for name in reached}
    assert enough(reached, given) == chosen
    backwards = dict(reversed(reached.items()))
    assert enough(backwards, given) == chosen, "their order makes no difference"

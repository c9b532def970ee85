"""`harness corpus` and `harness run --corpus` on the command line."""

from __future__ import annotations

import datetime
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from junitparser import Failure, JUnitXml

from harness.campaign.corpus import CorpusFile, read_corpus
from harness.campaign.expectations import Expectations
from harness.cli.run import _parted, _replayed
from harness.subject.registry import read_file

Command = Callable[..., tuple[int, str, str]]
CORPUS = Path(__file__).resolve().parents[3] / "corpus"
FILE = "ds-window-as-sd.json"


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A corpus of one file, `corpus/a.json`, in the folder in which commands run."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "corpus"
    folder.mkdir()
    shutil.copy(CORPUS / FILE, folder / "a.json")
    return folder


def test_files_are_added_and_checked(command: Command, corpus: Path) -> None:
    other = CORPUS / "ds-bias-refused.json"
    status, out, err = command("corpus", "add", other, CORPUS / FILE, "--to", "corpus")
    assert (status, err) == (0, "")
    first, second = out.splitlines()
    assert first.startswith(f"{other}: added as corpus/preprocess-assertionerror-call-")
    assert second == f"{CORPUS / FILE}: its case is there already"
    assert command("corpus", "check", "corpus") == (0, "2 files of kind case\n", "")
    shutil.copy(corpus / "a.json", corpus / "b.json")
    status, out, _ = command("corpus", "check", "corpus")
    assert (status, out.splitlines()[0]) == (2, "corpus/b.json holds the same as corpus/a.json")


def test_nothing_is_added_if_one_is_no_repro_file(command: Command, corpus: Path) -> None:
    (corpus.parent / "bad.json").write_text("{}")
    status, out, err = command("corpus", "add", CORPUS / "ds-bias-refused.json", "bad.json", "--to", "corpus")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert len(list(corpus.iterdir())) == 1
    status, _, err = command("corpus", "check", "nothing")
    assert (status, err.count("\n")) == (2, 1)
    assert "no repro file in this folder" in err


@pytest.mark.long
@pytest.mark.release
def test_what_is_needless_is_named_and_removed(command: Command, corpus: Path) -> None:
    shutil.copy(corpus / "a.json", corpus / "b.json")
    status, out, _ = command("corpus", "minimize", "corpus", "-t", "builtin", "--json")
    assert status == 0
    found = json.loads(out)
    assert (found["enough"], found["needless"], found["not_judged"]) == (["corpus/a.json"], ["corpus/b.json"], [])
    assert (corpus / "b.json").exists()
    status, out, _ = command("corpus", "minimize", "corpus", "-t", "builtin", "--remove")
    lines = out.splitlines()
    assert lines[:2] == ["enough corpus/a.json", "removed corpus/b.json"]
    assert lines[2].startswith("1 of 2 files reach all ")
    assert int(lines[2].split()[6]) > 10, "regimes and kernel lines count, not only the finding"
    assert not (corpus / "b.json").exists()


@pytest.mark.long
@pytest.mark.release
def test_a_run_replays_the_corpus_first(command: Command, corpus: Path) -> None:
    run = ("run", "--ops", "postprocess", "--cases", "1", "--corpus", "corpus", "--json", "--out")
    status, out, err = command(*run, "fixed", "-t", "builtin")
    (answer,) = json.loads(out)["standing"]["corpus"]
    assert (status, answer["answer"]) == (0, "FIXED")
    assert "replaying 1 file of 'corpus'" in err
    junit = "junit.xml"
    status, out, _ = command(*run, "failed", "-t", "vllm==0.22.0", "--report", f"junit={junit}")
    (answer,) = json.loads(out)["standing"]["corpus"]
    assert (status, answer["answer"], answer["issue"]) == (1, "FAILED", "ds-window-as-sd")
    (suite,) = JUnitXml.fromfile(junit)
    (case,) = (one for one in suite if one.name == "corpus corpus/a.json")
    assert [type(one) for one in case.result] == [Failure]
    assert "harness replay corpus/a.json" in case.result[0].text


def test_files_that_no_campaign_of_the_run_replays_are_listed(command: Command, corpus: Path) -> None:
    """A mistyped `--ops` would be green for ever otherwise."""
    files = [CorpusFile(corpus / "a.json", *read_file(corpus / "a.json"))]
    assert _parted(files, "case", ["case", "sequence"]) == (files, [])
    assert _parted(files, "sequence", ["sequence"]) == ([], files)
    assert _parted(files, "sequence", []) == ([], []), "another campaign of the run lists it"
    common: Any = SimpleNamespace(corpus=corpus, base=None, executor=None, case_limit=None, memory_limit=None)
    expected = _replayed(Expectations([], None, {}, datetime.date(2026, 1, 1)), ([], files), common, "")
    assert expected is not None
    (answer,) = expected.standing(cast(Any, SimpleNamespace(name="sequence")), [], None, complete=True).corpus
    assert (answer.answer, answer.reason) == ("SKIPPED", "the run judges no cases (--ops)")


def test_linked_folders_and_large_letters_count(tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "inside").mkdir(parents=True)
    shutil.copy(CORPUS / FILE, tmp_path / "elsewhere" / "inside" / "B.JSON")
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    assert [one.path for one in read_corpus(folder)] == [folder / "link" / "inside" / "B.JSON"]


def test_a_name_that_is_no_text_is_refused(command: Command, corpus: Path) -> None:
    (corpus / os.fsdecode(b"b\xff.json")).write_bytes(b"{}")
    status, out, err = command("run", "--cases", "1", "--corpus", "corpus")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "its name is no valid text" in err
    for option in ("--out", "--baseline", "--known"):
        status, out, err = command("run", "--cases", "1", option, os.fsdecode(b"c\xff"))
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert "its name is no valid text" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--corpus", "nothing"], "nothing: no repro file in this folder"),
        (["--corpus", "corpus", "--out", "corpus"], "--corpus and --out are the same folder"),
        (["--corpus", "corpus", "--targets", "builtin"], "they exclude --targets"),
    ],
)
def test_a_corpus_is_read_before_a_run_starts(
    command: Command, corpus: Path, arguments: list[str], message: str
) -> None:
    status, out, err = command("run", "--cases", "1", *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err

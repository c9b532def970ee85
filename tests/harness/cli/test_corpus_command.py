"""`harness corpus` and `harness run --corpus` on the command line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from junitparser import Failure, JUnitXml

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

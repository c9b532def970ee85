"""Sweeps: an answer for every target, the affected range in one sentence, and an exit status that can be trusted."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from harness.case import Case, Precopy, PrecopyRow
from harness.check.outcome import Evidence, Signature
from harness.cli import options
from harness.kernels.targets.download_size import announce_downloads
from harness.reports.swept import markdown
from harness.repro import Origin, Repro, write_repro
from harness.sweep.affected import SweepAnswer, TargetAnswer, affected_range, in_words
from harness.sweep.sweep import Swept

Command = Callable[..., "subprocess.CompletedProcess[str]"]
STATUS = {"FAILED": 1, "FIXED": 0, "NOT APPLICABLE": 3, "LOST": 3, "ERROR": 2}


def answers(**given: str) -> list[TargetAnswer]:
    """`v25="FAILED"` is release 0.25.0, other keywords are targets by name; `FAILED!`: with another signature."""
    found = []
    for name, text in given.items():
        target = f"vllm==0.{name[1:]}.0" if name[1:].isdigit() else name
        answer: SweepAnswer = msgspec.convert(text.rstrip("!"), SweepAnswer)
        signature = "s" if answer == "FAILED" else None
        found.append(TargetAnswer(target, answer, text == "FAILED", signature, "", STATUS[answer]))
    return found


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"v25": "FAILED", "v26": "FAILED", "v27": "FIXED"}, "Affects vllm 0.25.0 to 0.26.0, fixed in 0.27.0."),
        ({"v25": "FIXED", "v26": "FAILED"}, "Affects vllm 0.26.0."),
        ({"v27": "FIXED", "v26": "FAILED"}, "Affects vllm 0.26.0, fixed in 0.27.0."),
        ({"v33": "FIXED", "v31": "FAILED"}, "Affects vllm 0.31.0, not 0.33.0 (not all in between were asked)."),
        ({"v25": "FAILED", "v26": "FIXED", "v27": "FAILED"}, "Affects vllm 0.25.0 and 0.27.0."),
        (
            {"v24": "NOT APPLICABLE", "v30": "FAILED", "v31": "ERROR", "v32": "FIXED"},
            "Affects vllm 0.30.0, fixed in 0.32.0; not applicable to vllm 0.24.0; unknown for vllm 0.31.0.",
        ),
        ({"v25": "FIXED", "builtin": "FIXED"}, "Affects none of the 2 targets that it applies to."),
        ({"v25": "FIXED"}, "Does not affect vllm==0.25.0, the one target that it applies to."),
        (
            {"v25": "FAILED", "checkout": "LOST"},
            "Affects vllm 0.25.0; not judged in checkout, which has lost what the file is about.",
        ),
        ({"v25": "FIXED", "builtin": "FAILED"}, "Affects builtin."),
        ({"v25": "NOT APPLICABLE"}, "Applies to none of the targets."),
        ({"v25": "ERROR"}, "Not known; unknown for vllm 0.25.0."),
        ({"v25": "FAILED!"}, "Affects vllm 0.25.0 (with another signature)."),
        (
            {"v25": "FAILED", "v26": "FAILED!"},
            "Affects vllm 0.25.0 to 0.26.0 (with another signature on vllm==0.26.0).",
        ),
    ],
)
def test_the_range_in_one_sentence(given: dict[str, str], wanted: str) -> None:
    assert affected_range(answers(**given)) == wanted


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"v25": "FIXED", "v26": "FAILED", "v27": "ERROR"}, 1),
        ({"v25": "FIXED", "v27": "ERROR"}, 2),
        ({"v25": "FIXED", "v27": "NOT APPLICABLE"}, 0),
        ({"v27": "NOT APPLICABLE"}, 3),
        ({"v27": "FIXED", "checkout": "LOST"}, 3),
        ({"v27": "ERROR", "checkout": "LOST"}, 2),
    ],
)
def test_exit_status(given: dict[str, str], status: int) -> None:
    assert Swept("f", "s", "total", tuple(answers(**given)), "").exit_status == status


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"v25": "FAILED", "v26": "FIXED"}, ["FAILED", "FIXED"]),
        ({"v24": "FIXED", "v25": "FAILED!", "v26": "FIXED"}, ["NOT AFFECTED", "FAILED", "FIXED"]),
        ({"v26": "FIXED", "builtin": "FAILED"}, ["NOT AFFECTED", "FAILED"]),
        ({"v25": "FAILED", "builtin": "FIXED"}, ["FAILED", "NOT AFFECTED"]),
        ({"v25": "ERROR", "v26": "NOT APPLICABLE", "v27": "FIXED"}, ["ERROR", "NOT APPLICABLE", "NOT AFFECTED"]),
    ],
)
def test_what_never_failed_is_not_affected(given: dict[str, str], wanted: list[str]) -> None:
    found = answers(**given)
    assert [in_words(answer, found) for answer in found] == wanted


def test_many_downloads_are_announced_before_the_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("HARNESS_OFFLINE", raising=False)
    announce_downloads(["vllm==0.25.0"], options.announce)
    announce_downloads(["builtin", "vllm==0.25.0", "vllm==0.25.0+lost-reset"], options.announce)
    assert capsys.readouterr().err == "", "one download speaks for itself"
    announce_downloads(["vllm==0.25.0", "builtin", "vllm==0.26.0", "vllm==0.27.0"], options.announce)
    line = "harness: 3 releases are not in the cache: wheels of about 1.2 GB in all are downloaded once\n"
    assert capsys.readouterr().err == line
    monkeypatch.setenv("HARNESS_OFFLINE", "1")
    announce_downloads(["vllm==0.25.0", "vllm==0.26.0"], options.announce)
    assert capsys.readouterr().err == ""


def test_markdown_has_a_column_for_each_target() -> None:
    given = tuple(answers(v25="FAILED", v26="FAILED!", v27="FIXED", v28="NOT APPLICABLE", builtin="ERROR"))
    text = markdown([Swept("corpus/a.json", "precopy/x", "total", given, "Affects | all.")])
    head, rule, row, _, sentence = text.splitlines()
    assert head == "| finding | domain | 0.25.0 | 0.26.0 | 0.27.0 | 0.28.0 | builtin |"
    assert rule.count("---") == head.count("|") - 1
    assert row == "| precopy/x | total | FAILED | FAILED (other) | FIXED | - | ERROR |"
    assert sentence == "- precopy/x (`corpus/a.json`): Affects \\| all."


@pytest.fixture
def repro(tmp_path: Path, make_case: Callable[..., Case]) -> Path:
    """One move by the V2 runner, recorded as an out-of-bounds write on a target that does not exist."""
    move = Precopy(runner="V2", rows=(PrecopyRow(slot=0, source_column=0, destination_column=1, bias=0),))
    path = tmp_path / "bug.json"
    write_repro(
        path,
        Repro(
            signature=Signature("precopy", "exception", "RuntimeError", "call", "-"),
            evidence=Evidence("it raised"),
            origin=Origin(target="path:x", executor="native", harness_version="0", generator_version=0),
            case=msgspec.structs.replace(make_case(move), domain="reachable"),
        ),
    )
    return path


CORPUS = Path(__file__).parents[3] / "corpus"
TARGETS = "builtin,broken:raise,broken:segfault,broken:lack,broken:load-refused,broken:load-raises"


@pytest.mark.long
def test_every_target_has_an_answer(harness: Command, broken_targets: Path, repro: Path, executor_name: str) -> None:
    done = harness("sweep", repro, "--targets", TARGETS, "-e", executor_name, "-j", 2, "--json")
    assert done.returncode == 1, done.stderr
    (finding,) = json.loads(done.stdout)["findings"]
    got = {a["target"]: (a["answer"], a["same"]) for a in finding["answers"]}
    assert got == {
        "builtin": ("FIXED", False),
        "broken:raise": ("FAILED", True),
        "broken:segfault": ("FAILED", False),
        "broken:lack": ("NOT APPLICABLE", False),
        "broken:load-refused": ("ERROR", False),
        "broken:load-raises": ("ERROR", False),
    }
    details = {a["target"]: a["detail"] for a in finding["answers"]}
    assert details["broken:lack"] == "lacks-operation: broken targets lack this"
    assert details["broken:load-raises"] == "RuntimeError: loading failed"
    assert all("\n" not in detail for detail in details.values())


@pytest.mark.long
def test_a_folder_and_a_table(harness: Command, repro: Path, executor_name: str) -> None:
    done = harness("sweep", repro.parent, "-t", "builtin", "-e", executor_name)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == [
        "precopy/exception/RuntimeError/call/-",
        "builtin",
        "Does",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.json"], "missing.json: no such file"),
        (["."], "no repro files in this folder"),
        (["missing.json", "-t", "vllm>9"], "no known release of vllm is >9"),
    ],
)
def test_bad_usage_is_one_line(harness: Command, arguments: list[str], message: str) -> None:
    done = harness("sweep", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1

"""Tests of a release's own scheduler: what they are made of, and that they fail where a scheduler is at fault."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from harness.export.form import NotExportable, Request
from harness.export.unit_test import UNIT_TEST, side_of
from harness.kernels.targets.vllm.scheduling.sources import whole_tree
from harness.repro import SequenceRepro, read_any
from tests.harness.export.environments import environment
from tests.harness.export.test_literals import HOSTILE
from tests.releases import with_scheduler

ROOT = Path(__file__).resolve().parents[3]
CORPUS = ROOT / "corpus" / "sequences"


def repro_of(name: str) -> SequenceRepro:
    _, repro = read_any(CORPUS / f"{name}.json")
    assert isinstance(repro, SequenceRepro)
    return repro


FILES = sorted(
    path.stem
    for path in CORPUS.glob("*.json")
    if side_of(repro_of(path.stem)) != "runner" and not repro_of(path.stem).sequence.streams  # those have no test
)


def text_of(repro: SequenceRepro, name: str = "finding") -> str:
    return UNIT_TEST.text(Request(name, "sequence", repro, repro.origin.target))


@pytest.mark.parametrize("name", FILES)
def test_a_test_needs_nothing_of_the_harness(name: str) -> None:
    text = text_of(repro_of(name), name)
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(str(node.module).partition(".")[0])
    assert imported - sys.stdlib_module_names == {"torch"}
    assert "harness." not in text
    compile(text, name, "exec")


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_texts_of_a_file_never_become_code(text: str) -> None:
    plain, replace = repro_of("split-block-size"), msgspec.structs.replace
    hostile = replace(
        plain,
        signature=replace(plain.signature, violation=text, object=text),
        evidence=replace(plain.evidence, summary=text, details=(text,)),
        origin=replace(plain.origin, target=text, executor=text, harness_version=text),
        issue=text,
        settings=(text,),
        fixes=(text,),
    )
    assert ast.dump(ast.parse(text_of(hostile))) == ast.dump(ast.parse(text_of(plain)))


def test_a_fault_of_the_runner_is_declined() -> None:
    runner = repro_of("left-out-row")
    assert side_of(runner) == "runner"
    with pytest.raises(NotExportable, match=r"its fault is in the model runner.*left-out-row\.md has a unit test"):
        text_of(runner)
    with pytest.raises(NotExportable, match=r"runs the runner's own host code$"):
        text_of(repro_of("async-accepted-counts"))
    assert side_of(repro_of("split-block-size")) == "scheduler"
    assert side_of(repro_of("checkpoint-into-running-block")) == "scheduler"
    assert "one may show first: split-block-size" in text_of(repro_of("untruncated-hit-overwrites"))
    assert side_of(msgspec.structs.replace(runner, issue=None)) == "unknown"
    assert side_of(msgspec.structs.replace(runner, issue="something-new")) == "unknown"


def test_streaming_input_is_declined() -> None:
    with pytest.raises(NotExportable, match=r"have streaming input.*reset-with-session\.md has a unit test"):
        text_of(repro_of("reset-with-session"))


def test_what_only_bytes_show_is_refused() -> None:
    plain, replace = repro_of("split-block-size"), msgspec.structs.replace
    bytes_differ = replace(plain, signature=replace(plain.signature, violation="bytes-differ"))
    with pytest.raises(NotExportable, match="it is about bytes that kernels left"):
        text_of(bytes_differ)
    differs = replace(plain, issue=None, signature=replace(plain.signature, violation="host-code-differs"))
    assert side_of(differs) == "runner"
    assert "with planted faults" in text_of(replace(plain, faults=("stale",)))


def run_test(name: str, release: str, folder: Path) -> tuple[int, str]:
    tree = whole_tree(with_scheduler(f"vllm=={release}"))
    file = folder / "test_finding.py"
    file.write_text(text_of(repro_of(name)), encoding="utf-8")
    more = {"VLLM_SOURCES": str(tree.directory), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", file],
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment(**more),
    )
    return done.returncode, done.stdout


AFFECTED = {
    "checkpoint-into-running-block": "0.33.0",
    "checkpoint-mid-block": "0.33.0",
    "copy-of-fresh-block": "0.33.0",
    "cut-padding": "0.28.0",
    "padded-to-limit": "0.26.0",
    "partial-entry-async": "0.27.1",
    "preempted-while-scheduled": "0.33.0",
    "preempted-while-scheduled-v2": "0.33.0",
    "split-block-size": "0.33.0",
    "tokens-lost-async": "0.26.0",
    "unaligned-eagle-chunk": "0.25.0",
    "uncounted-draft-slots": "0.33.0",
    "unrelocated-block": "0.31.0",
}
"""Faults of schedulers and block managers, and a release that has each."""


@pytest.mark.slow
@pytest.mark.release
@pytest.mark.parametrize("name", AFFECTED)
def test_a_test_fails_on_an_affected_release(name: str, tmp_path: Path) -> None:
    status, text = run_test(name, AFFECTED[name], tmp_path)
    assert (status, "AssertionError: " in text) == (1, True), text


@pytest.mark.slow
@pytest.mark.release
@pytest.mark.parametrize(("name", "release"), [("padded-to-limit", "0.33.0"), ("partial-entry-async", "0.33.0")])
def test_a_test_passes_where_the_scheduler_is_right(name: str, release: str, tmp_path: Path) -> None:
    status, text = run_test(name, release, tmp_path)
    assert (status, "1 passed" in text) == (0, True), text


@pytest.mark.slow
@pytest.mark.release
def test_tests_find_nothing_wrong_where_no_known_issue_is_reached() -> None:
    """Drawn sequences on 0.33.0: the worker of the tests follows what the release's scheduler decides."""
    with_scheduler("vllm==0.33.0")
    here = Path(__file__).with_name("run_drawn.py")
    done = subprocess.run(
        [sys.executable, "-P", here, "0.33.0", "1", "40", "60"],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
    )
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["failed"] == {}
    assert result["steps"] > 1000

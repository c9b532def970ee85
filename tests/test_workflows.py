"""The workflows of docs/workflows: their commands run in order on small checkouts, as GitHub's runner would run them.

Actions of others are replaced by what they do to files; of these, names and inputs are looked at.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.files import replace_file
from tests.releases import edit, editable

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = ROOT / "docs" / "workflows"
WORKER = "vllm/v1/worker/mamba_utils.py"
IN_ADVANCE = (
    "tl.store(num_accepted_tokens_ptr + req_indices, 1,",
    "tl.store(num_accepted_tokens_ptr + req_indices, 2,",
)
IN_POSTPROCESS = (
    "tl.store(num_accepted_tokens_out_ptr + req_idx, 1)",
    "tl.store(num_accepted_tokens_out_ptr + req_idx, 2)",
)
OPTIONS = "--ops postprocess,advance --cases 48 --scale small --relations none"

INPUTS = {
    "actions/checkout@v4": {"path", "fetch-depth", "repository"},
    "actions/setup-python@v5": {"python-version"},
    "actions/upload-artifact@v4": {"name", "path", "if-no-files-found"},
    "actions/download-artifact@v4": {"pattern", "path"},
    "actions/cache/restore@v4": {"path", "key", "restore-keys"},
    "actions/cache/save@v4": {"path", "key"},
    "github/codeql-action/upload-sarif@v3": {"sarif_file", "checkout_path"},
}
"""The actions, and what is given to them."""


def workflow(name: str) -> dict[str, Any]:
    document = yaml.load((WORKFLOWS / name).read_text(), Loader=yaml.BaseLoader)  # else `on` is a boolean
    assert isinstance(document, dict)
    return document


@dataclass
class Ran:
    """A job that ran: whether it is green, and by name of step its status and output."""

    green: bool = True
    steps: dict[str, tuple[int, str]] = field(default_factory=dict)
    summary: str = ""


@dataclass
class Runner:
    """Runs jobs, each in a new folder. `vllm` is the repository; artifacts are those of one run, the cache stays."""

    folder: Path
    vllm: Path
    executor: str
    number: int = 0
    run: int = 0
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def artifacts(self) -> Path:
        return self.folder / f"artifacts-{self.run}"

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    def filled(self, text: str, values: Mapping[str, str]) -> str:
        """A text with its expressions replaced."""
        known = {"github.run_id": str(self.run), "github.run_number": str(self.run), **values}
        known |= {"vars.HARNESS_REPOSITORY": "o/harness", "github.event.pull_request.number": "7"}
        return re.sub(r"\$\{\{ (.*?) \}\}", lambda match: known[match[1]], text)

    def job(self, document: Mapping[str, Any], name: str, values: Mapping[str, str] = {}) -> Ran:
        """Run the steps of a job."""
        self.number += 1
        work = self.folder / f"work-{self.number}"
        work.mkdir(parents=True)
        summary = work.parent / f"summary-{self.number}.md"
        summary.touch()
        job = document["jobs"][name]
        given = {**document.get("env", {}), **job.get("env", {}), "OPTIONS": f"{OPTIONS} -e {self.executor}"}
        set_by_us = {key: self.filled(value, values) for key, value in given.items()}
        ran = Ran()
        for step in job["steps"]:
            if not self.wanted(step.get("if"), work, ran):
                continue
            if "uses" in step:
                self.use(step["uses"], {key: self.filled(one, values) for key, one in step["with"].items()}, work)
                continue
            assert "${{" not in step["run"], "texts of others are no part of a script"
            if step["name"] == "Install":
                assert step["run"] == "pip install -c harness/constraints.txt ./harness"
                continue
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],
                cwd=work,
                env={**os.environ, **self.environment, **set_by_us, "GITHUB_STEP_SUMMARY": str(summary)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            ran.steps[step["name"]] = (done.returncode, done.stdout)
            ran.green = ran.green and done.returncode == 0
        ran.summary = summary.read_text()
        return ran

    def wanted(self, condition: str | None, work: Path, ran: Ran) -> bool:
        """Whether a step runs."""
        if condition is None:
            return ran.green
        match = re.fullmatch(r"\$\{\{ !cancelled\(\)(?: && hashFiles\('([^']+)'\) != '')? \}\}", condition)
        assert match is not None, condition
        return match[1] is None or (work / match[1]).is_file()

    def use(self, action: str, given: Mapping[str, str], work: Path) -> None:
        """What an action does to files."""
        assert set(given) <= INPUTS[action]
        name = action.rpartition("@")[0]
        if name == "actions/checkout" and "repository" not in given:
            subprocess.run(["git", "clone", "-q", self.vllm, work / given["path"]], check=True)
        elif name == "actions/upload-artifact":
            for path in given["path"].split():
                if given.get("if-no-files-found") == "error":
                    assert any((work / path).rglob("*"))
                if (work / path).is_dir():
                    # Of one folder the artifact has what is in it.
                    place = self.artifacts / given["name"] / ("" if len(given["path"].split()) == 1 else path)
                    shutil.copytree(work / path, place, dirs_exist_ok=True)
                elif (work / path).is_file():
                    replace_file(self.artifacts / given["name"] / path, (work / path).read_bytes())
        elif name == "actions/download-artifact":
            for folder in self.artifacts.glob(given["pattern"]):
                shutil.copytree(folder, work / given["path"] / folder.name)
        elif name == "actions/cache/restore":
            newest = max(self.cache.glob(f"{given['restore-keys']}*"), default=None)
            if newest is not None:
                shutil.copytree(newest, work / given["path"])
        elif name == "actions/cache/save" and (work / given["path"]).exists():
            shutil.copytree(work / given["path"], self.cache / given["key"])
        elif name == "github/codeql-action/upload-sarif":
            assert json.loads((work / given["sarif_file"]).read_text())["version"] == "2.1.0"


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", folder, *who, *arguments], check=True, capture_output=True)


@pytest.fixture
def runner(tmp_path: Path, executor_name: str) -> Runner:
    """With a repository that holds release 0.33.0, in which one fault of advance is known."""
    vllm = editable("0.33.0", tmp_path / "repository")
    edit(vllm, WORKER, *IN_ADVANCE)
    git(vllm, "init", "-q", "-b", "main")
    git(vllm, "add", "-A")
    git(vllm, "commit", "-q", "-m", "base")
    programs = tmp_path / "programs"
    programs.mkdir()
    command = [sys.executable, "-P", "-c", "from harness.cli.main import main; main()"]
    (programs / "harness").write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    (programs / "harness").chmod(0o755)
    environment = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "CI": "true"}
    return Runner(tmp_path / "runs", vllm, executor_name, environment=environment)


def change(vllm: Path, old: str, new: str) -> None:
    """Merge a change into main, as the merge commit of a pull request does."""
    git(vllm, "checkout", "-q", "-b", "change")
    edit(vllm, WORKER, old, new)
    git(vllm, "commit", "-q", "-a", "-m", "change")
    git(vllm, "checkout", "-q", "main")
    git(vllm, "merge", "-q", "--no-ff", "--no-edit", "change")
    git(vllm, "branch", "-q", "-D", "change")


def annotated(output: str) -> list[tuple[str, str]]:
    """Kind and operation of each annotation."""
    return re.findall(r"^::(\w+) .*?title=(\w+)/", output, re.MULTILINE)


@pytest.mark.parametrize("name", ["per-change.yml", "nightly.yml"])
def test_every_workflow_is_made_of_what_is_known_here(name: str) -> None:
    document = workflow(name)
    assert document["on"]
    assert document["permissions"]["contents"] == "read"
    for job in document["jobs"].values():
        assert int(job["timeout-minutes"]) <= 120
        for step in job["steps"]:
            if "uses" in step:
                assert set(step["with"]) <= INPUTS[step["uses"]]
            else:
                assert subprocess.run(["bash", "-n", "-c", step["run"]], check=False).returncode == 0


@pytest.mark.long
def test_only_what_a_change_brings_fails_it(runner: Runner) -> None:
    document = workflow("per-change.yml")
    change(runner.vllm, "import torch\n", "import torch  # a comment\n")
    harmless = runner.job(document, "compare")
    assert harmless.green, harmless.steps
    assert annotated(harmless.steps["Judge the change"][1]) == [("notice", "advance")]
    change(runner.vllm, *IN_POSTPROCESS)
    harmful = runner.job(document, "compare")
    assert [name for name, (status, _) in harmful.steps.items() if status] == ["Judge the change"]
    status, output = harmful.steps["Judge the change"]
    assert status == 1
    assert dict(map(reversed, annotated(output))) == {"advance": "notice", "postprocess": "error"}
    assert "### postprocess/" in harmful.summary
    kept = runner.artifacts / "findings"
    assert (kept / "page.html").is_file()
    assert any((kept / "head").glob("postprocess*.json"))


@pytest.mark.slow
def test_nights_know_the_nights_before(runner: Runner) -> None:
    document = workflow("nightly.yml")
    shards = ("1", "2")

    def night() -> Ran:
        runner.run += 1
        for shard in shards:
            values = {"matrix.shard": shard, "strategy.job-total": str(len(shards))}
            ran = runner.job(document, "shard", values)
            assert ran.green, ran.steps
            assert ran.summary == "", "there is one summary, that of the night"
        return runner.job(document, "night")

    def kept(name: str) -> list[Path]:
        newest = max(runner.cache.iterdir())
        return sorted((newest / name).glob("*.json"))

    first = night()
    assert {name: status for name, (status, _) in first.steps.items() if status} == {"Put the shards together": 1}
    assert annotated(first.steps["Put the shards together"][1]) == [("error", "advance")]
    assert kept("open")
    assert not kept("corpus")

    (by_first,) = kept("open")
    by_another_case = by_first.with_name(f"{by_first.stem.rpartition('-')[0]}-00000000.json")
    by_first.rename(by_another_case)

    second = night()
    assert second.green, second.steps
    assert annotated(second.steps["Put the shards together"][1]) == [("notice", "advance")]
    assert "already in 'kept/last'" in second.summary.replace("\\", "")
    assert (runner.artifacts / "night" / "night" / by_first.name).is_file()
    assert [path.name for path in kept("open")] == [by_another_case.name], "of a finding one file is kept"

    change(runner.vllm, *reversed(IN_ADVANCE))
    third = night()
    assert third.green, third.steps
    assert kept("corpus")
    assert not kept("open")

    change(runner.vllm, *IN_ADVANCE)
    fourth = night()
    status, output = fourth.steps["Put the shards together"]
    assert status == 1
    assert "of the corpus FAILED" in output, "what was mended and fails again"
    artifact = runner.artifacts / "night"
    assert {path.name for path in artifact.iterdir()} == {"night", "page.html", "results.xml", "results.sarif"}


@pytest.mark.slow
def test_a_night_without_one_of_its_shards_is_red(runner: Runner) -> None:
    document = workflow("nightly.yml")
    runner.run = 1
    assert runner.job(document, "shard", {"matrix.shard": "2", "strategy.job-total": "2"}).green
    night = runner.job(document, "night")
    status, output = night.steps["Put the shards together"]
    assert status == 2
    assert re.search(r"shard", output)
    assert night.steps["Keep what was found"] == (0, "")
    assert not runner.cache.exists()

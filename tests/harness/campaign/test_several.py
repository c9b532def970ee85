"""Several targets in one campaign: the same cases on each, and findings side by side."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., "subprocess.CompletedProcess[str]"]
RIGHT, WRONG = "builtin", "builtin+lost-reset"


def test_targets_judge_the_same_cases(harness: Command, executor_name: str, tmp_path: Path) -> None:
    # The first target's share of the time decides how many cases there are, for the others too.
    done = harness(
        *("run", "--targets", f"{RIGHT},{WRONG}", "--budget", "6s", "--scale", "small", "--ops", "postprocess"),
        *("--relations", "none", "-e", executor_name, "--json", "--no-shrink"),
    )
    assert done.returncode == 1, done.stderr
    comparison = json.loads(done.stdout)
    assert [summary["target"] for summary in comparison["targets"]] == [RIGHT, WRONG]
    first, second = comparison["targets"]
    assert first["cases"] == second["cases"] > 0
    assert first["judged"] == second["judged"]
    assert first["regimes"] == second["regimes"]
    assert first["findings"] == []
    assert comparison["findings"], "the planted fault is found"
    for finding in comparison["findings"]:
        assert list(finding["cases"]) == [WRONG]
        assert finding["repros"][WRONG].startswith("findings/builtin+lost-reset/")
        assert (tmp_path / finding["repros"][WRONG]).is_file()


def test_the_report_ends_with_all_targets(harness: Command, executor_name: str) -> None:
    done = harness(
        *("run", "--targets", RIGHT, "--cases", 4, "--scale", "small", "--ops", "postprocess"),
        *("--relations", "none", "-e", executor_name),
    )
    assert done.returncode == 0, done.stderr
    assert "1 target, the same cases" in done.stdout
    assert done.stdout.splitlines()[-1].split() == f"{RIGHT} 4 cases, 4 operations judged, 0 findings".split()


@pytest.mark.release
def test_what_an_old_release_lacks_is_told(harness: Command, executor_name: str) -> None:
    """0.22.0 has no precopy: no failure of a run over several releases, unless precopy was asked for by name."""
    targets = ("run", "--targets", "vllm==0.22.0,builtin", "-e", executor_name)
    more = ("--cases", 160, "--scale", "small", "--relations", "none", "--addresses", "low", "--json")
    done = harness(*targets, *more)
    assert done.returncode == 0, done.stderr
    old, new = json.loads(done.stdout)["targets"]
    assert (old["missing"], new["missing"], new["lacking"]) == ([], [], {})
    assert "came with vllm 0.2" in old["lacking"]["precopy"]
    assert old["judged"]["precopy"] == 0 < old["judged"]["postprocess"]
    done = harness(*targets, *more, "--ops", "postprocess,precopy")
    assert done.returncode == 3, done.stderr
    old, new = json.loads(done.stdout)["targets"]
    assert (old["missing"], new["missing"]) == (["operation precopy"], [])


@pytest.mark.release
def test_a_target_that_lacks_everything_judged_nothing(harness: Command, executor_name: str) -> None:
    done = harness("run", "--target", "vllm==0.22.0", "--ops", "precopy", "-e", executor_name, "--cases", 16, "--json")
    assert done.returncode == 3, done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--targets", "builtin", "--target", "builtin"], "exclude each other"),
        (["--targets", "builtin", "--engine", "hypothesis"], "cannot give several the same cases"),
        (["--targets", "builtin,nonsense"], "unknown target 'nonsense'"),
        (["--targets", "vllm>9"], "no known release of vllm is >9"),
    ],
)
def test_bad_usage(harness: Command, arguments: list[str], message: str) -> None:
    done = harness("run", *arguments)
    assert done.returncode == 2
    assert message in done.stderr


def test_a_reachable_case_stands_for_its_signature(harness: Command, executor_name: str, tmp_path: Path) -> None:
    done = harness(
        *("run", "--target", WRONG, "--cases", 160, "--scale", "small", "--ops", "postprocess", "--domain", "both"),
        *("--relations", "none", "-e", executor_name, "--json", "--no-shrink"),
    )
    found = {finding["signature"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert {finding["domain"] for finding in found.values()} == {"reachable"}, "both domains show it"
    for finding in found.values():
        assert json.loads((tmp_path / finding["repro"]).read_text())["case"]["domain"] == "reachable"

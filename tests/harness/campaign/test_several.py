"""Several targets in one campaign: the same cases on each, and a comparison of findings."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.campaign.campaign import Campaign
from harness.campaign.settings import Settings
from harness.campaign.several import run_several

if TYPE_CHECKING:
    from tests.harness.campaign.conftest import Kit

Command = Callable[..., "subprocess.CompletedProcess[str]"]
ROOT = Path(__file__).resolve().parents[3]
STAND_IN = ROOT / "tests" / "harness" / "sequences" / "stand_in_release.py"
RIGHT, WRONG = "builtin", "builtin+lost-reset"


@pytest.mark.long
def test_targets_judge_the_same_cases(harness: Command, executor_name: str, tmp_path: Path) -> None:
    done = harness(
        *("run", "--targets", f"{RIGHT},{WRONG}", "--cases", 48, "--scale", "small", "--ops", "postprocess"),
        *("--relations", "none", "-e", executor_name, "--json", "--no-shrink"),
    )
    assert done.returncode == 1, done.stderr
    comparison = json.loads(done.stdout)
    assert [summary["target"] for summary in comparison["targets"]] == [RIGHT, WRONG]
    first, second = comparison["targets"]
    assert first["cases"] == second["cases"] == 48
    # What comes after a failure in a program is not judged.
    assert first["judged"]["postprocess"] >= second["judged"]["postprocess"] > 0
    assert first["regimes"].keys() == second["regimes"].keys()
    assert first["findings"] == []
    assert comparison["findings"], "the planted fault is found"
    for finding in comparison["findings"]:
        assert list(finding["cases"]) == [WRONG]
        assert finding["repros"][WRONG].startswith("findings/builtin+lost-reset/")
        assert (tmp_path / finding["repros"][WRONG]).is_file()


@pytest.mark.long
@pytest.mark.parametrize("judged", [0, 3])
def test_with_a_budget_the_first_target_decides_the_number_of_cases(
    kit: Kit, settings: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch, judged: int
) -> None:
    """Here its share of the time is over after a fixed number of cases, on any machine."""
    budgets: list[float | None] = []

    def deadline(campaign: Campaign) -> float:
        if campaign._settings.seconds not in budgets:
            budgets.append(campaign._settings.seconds)
        over = campaign._settings.seconds is not None and campaign._tally.cases >= judged
        return -math.inf if over else math.inf

    monkeypatch.setattr(Campaign, "_deadline", property(deadline))
    subject = kit.right()
    subject.block = 1
    given = settings(cases=None, seconds=7200.0)
    comparison = run_several(lambda target: subject, given, ["first", "second"], lambda event: None)
    assert [summary.count for summary in comparison.targets] == [judged, judged]
    assert budgets[0] == 3600.0
    assert budgets[1:] == ([None] if judged else []), "the number of cases ends the second"


def test_releases_run_the_same_sequences(tmp_path: Path) -> None:
    """On a stub for which all releases are the same."""
    targets = ["vllm==0.32.0", "vllm==0.33.0"]
    arguments = ("run", "--ops", "sequences", "--targets", ",".join(targets), "--cases", 12, "--seed", 5, "--json")
    done = subprocess.run(
        [sys.executable, "-P", str(STAND_IN), *map(str, arguments), "--no-shrink"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ["PYTHONPATH"]]), "STAND_IN": ""},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    comparison = json.loads(done.stdout)
    assert [summary["target"] for summary in comparison["targets"]] == targets
    assert [summary["sequences"] for summary in comparison["targets"]] == [12, 12]
    (finding,) = comparison["findings"]
    assert finding["signature"] == "sequence/meaning/token-mismatch/mamba/-"
    assert finding["cases"] == dict.fromkeys(targets, 4)
    for target in targets:
        folder = Path("findings") / target.replace("==", "-")
        assert Path(finding["repros"][target]).parent == folder
        assert (tmp_path / folder / "sequences.journal").is_file()


@pytest.mark.long
def test_the_report_ends_with_all_targets(harness: Command, executor_name: str) -> None:
    done = harness(
        *("run", "--targets", RIGHT, "--cases", 4, "--scale", "small", "--ops", "postprocess"),
        *("--relations", "none", "-e", executor_name),
    )
    assert done.returncode == 0, done.stderr
    assert "1 target, the same cases" in done.stdout
    assert done.stdout.splitlines()[-1].split() == f"{RIGHT} 4 cases, 4 operations judged, 0 findings".split()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.release
def test_what_an_old_release_lacks_is_reported(harness: Command, executor_name: str) -> None:
    """0.22.0 has no precopy: that does not fail a run over several releases, unless precopy was asked for by name."""
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


@pytest.mark.long
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


@pytest.mark.long
def test_a_reachable_case_represents_its_signature(harness: Command, executor_name: str, tmp_path: Path) -> None:
    done = harness(
        *("run", "--target", WRONG, "--cases", 160, "--scale", "small", "--ops", "postprocess", "--domain", "both"),
        *("--relations", "none", "-e", executor_name, "--json", "--no-shrink"),
    )
    found = {finding["signature"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert {finding["domain"] for finding in found.values()} == {"reachable"}, "both domains show it"
    for finding in found.values():
        assert json.loads((tmp_path / finding["repro"]).read_text())["case"]["domain"] == "reachable"

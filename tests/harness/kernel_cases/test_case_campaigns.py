"""Features that only campaigns of kernel cases have: regimes, operations, and races named after the simplest kind of
state. Tests for all subjects are in tests/harness/campaign."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from harness.campaign.campaign import Campaign
from harness.campaign.events import CampaignFinished
from harness.campaign.settings import Settings
from harness.case import Precopy
from harness.check.outcome import Evidence, Outcome, Seconds, Signature, Verdict
from harness.engines.random import Recipe, case_at
from harness.kernel_cases.recipe import JudgedCase
from harness.kernel_cases.subject import EVERY_REGIME, KILLED, KernelCases
from harness.kernel_cases.summary import CaseSummary
from harness.regimes.registry import regimes_of
from harness.repro import read_repro
from harness.shrink.driver import Shrunk

BOTH = ("postprocess", "precopy")
RECIPE = Recipe(seed=0, domains=("reachable",), operations=BOTH, scale="small")

Run = Callable[..., CaseSummary]


@pytest.fixture
def run(executor_name: str, tmp_path: Path) -> Run:
    """The summary of that many cases of RECIPE on a target; findings go to the test's folder."""

    def run(target: str, cases: int, require: Sequence[str] = (), shrink_executions: int = 0) -> CaseSummary:
        subject = KernelCases(target=target, executor=executor_name, limit=60.0, recipe=RECIPE, require=tuple(require))
        shrink = shrink_executions > 0
        settings = Settings(out=tmp_path, cases=cases, shrink=shrink, shrink_executions=shrink_executions)
        *_, last = Campaign(subject, settings).run()
        assert isinstance(last, CampaignFinished)
        assert isinstance(last.summary, CaseSummary)
        return last.summary

    return run


@pytest.mark.long
def test_what_is_judged_and_reached_is_counted(run: Run) -> None:
    summary = run("builtin", 32, ["same-block-shift-ds"])
    cases = [case_at(RECIPE, index) for index in range(32)]
    assert summary.judged == {
        name: sum(type(operation).__name__.lower() == name for case in cases for operation in case.program)
        for name in BOTH
    }
    assert summary.launches >= sum(summary.judged.values()) // 2
    reached = sum("same-block-shift-ds" in regimes_of(case) for case in cases)
    assert summary.regimes["same-block-shift-ds"] == reached > 0
    assert (summary.findings, summary.skipped) == ([], {})
    assert (summary.missing, summary.exit_status) == ([], 0)


@pytest.mark.long
def test_regimes_and_operations_asked_for_must_be_reached(run: Run, broken_targets: Path) -> None:
    """The target lacks precopy: an operation that was asked for and never judged is not a success, and neither is a
    regime without a case."""
    summary = run("broken:lack", 16, ["several-groups", "misaligned-base-8"])
    programs = [case_at(RECIPE, index).program for index in range(16)]
    # A case ends with the first operation that is skipped.
    first = [next((i for i, one in enumerate(each) if isinstance(one, Precopy)), len(each)) for each in programs]
    assert summary.findings == []
    assert summary.judged == {"postprocess": sum(first), "precopy": 0}
    assert summary.judged["postprocess"] > 0
    assert summary.skipped == {"lacks-operation": sum(i < len(each) for i, each in zip(first, programs, strict=True))}
    assert "operation precopy" in summary.missing
    assert "regime misaligned-base-8" in summary.missing, "no reachable case has it"
    judged = [case for case, count in zip(map(partial(case_at, RECIPE), range(16)), first, strict=True) if count]
    reached = any("several-groups" in regimes_of(case) for case in judged)
    assert ("regime several-groups" in summary.missing) is not reached
    assert summary.exit_status == 3


@pytest.mark.long
def test_what_is_only_skipped_is_not_reached(run: Run, broken_targets: Path) -> None:
    """Regimes of precopy are in the cases, and this target lacks it: nothing required is met by what was not judged."""
    summary = run("broken:lack", 32, ["precopy-v1"])
    assert any("precopy-v1" in regimes_of(case_at(RECIPE, index)) for index in range(32))
    assert (summary.regimes["precopy-v1"], summary.exit_status) == (0, 3)
    assert "regime precopy-v1" in summary.missing
    assert "lacks-operation" in summary.unjudged["precopy-v1"]
    everything = run("broken:lack", 32, EVERY_REGIME)
    assert "regime precopy-v1" not in everything.missing, "this target cannot reach it, and says why"
    assert "precopy-v1" in everything.unjudged


@pytest.mark.long
def test_minimal_findings_are_those_that_were_drawn(run: Run, tmp_path: Path) -> None:
    summary = run("builtin+wrong-group", 24, shrink_executions=400)
    drawn = {read_repro(path).signature for path in (tmp_path / "as-drawn").iterdir()}
    minimal = {read_repro(path).signature for path in tmp_path.glob("*.json")}
    assert drawn == minimal != set()
    assert {finding.signature for finding in summary.findings if finding.cases} == {str(found) for found in minimal}


@pytest.mark.parametrize("again", [True, False])
def test_a_kill_that_does_not_happen_again_shows_nothing(monkeypatch: pytest.MonkeyPatch, again: bool) -> None:
    """A worker may be killed from outside as often as a case is repeated: its smallest form is asked once more."""
    signature = Signature("precopy", "isolation", KILLED, "process", "-")
    lost = Verdict("precopy", "fail", signature=signature, evidence=Evidence("it was lost"))
    killed = Outcome((lost,), Seconds())
    passes = Outcome((Verdict("precopy", "pass"),), Seconds())
    monkeypatch.setattr("harness.kernel_cases.subject.check", lambda *asked: killed if again else passes)
    subject = KernelCases(target="builtin", executor="native", limit=1.0, recipe=RECIPE)
    case = subject.draw(0)
    result = JudgedCase(killed)
    shrunk = Shrunk(case, result, 46, 0.3, True, [], [])
    key = subject.key(case, result)
    assert key is not None
    concluded = subject.conclude(object(), key, shrunk)  # type: ignore[arg-type]
    assert concluded == ((result, key) if again else None)


@pytest.mark.long
def test_what_the_first_finding_left_no_time_for_is_not_missing(executor_name: str, tmp_path: Path) -> None:
    recipe = Recipe(seed=0, domains=("reachable",), operations=(*BOTH, "all-mode"), scale="small")
    missing = {}
    for fail_fast in (True, False):
        target = "builtin+wrong-group" if fail_fast else "builtin"
        subject = KernelCases(target=target, executor=executor_name, limit=60.0, recipe=recipe)
        out = tmp_path / str(fail_fast)
        settings = Settings(out=out, cases=64 if fail_fast else 1, shrink=False, fail_fast=fail_fast)
        *_, last = Campaign(subject, settings).run()
        assert isinstance(last, CampaignFinished)
        assert isinstance(last.summary, CaseSummary)
        assert bool(last.summary.findings) == fail_fast
        missing[fail_fast] = [name for name in last.summary.missing if name.startswith("operation ")]
    assert missing[True] == []
    assert missing[False]

"""The findings of a campaign: which case represents a signature, before and after shrinking."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.campaign.events import FindingFound, FindingKept
from harness.campaign.findings import Findings
from harness.campaign.settings import Settings
from harness.case import Case
from harness.check.outcome import Evidence, Outcome, Seconds, Signature, Verdict
from harness.engines.random import Recipe, case_at
from harness.kernel_cases.recipe import JudgedCase
from harness.kernel_cases.subject import KernelCases
from harness.kernel_cases.summary import Finding
from harness.repro import read_repro
from harness.shrink.driver import Shrunk
from harness.subject.entry import Tally
from harness.subject.subject import Ended, Key
from harness.worker.process import WorkerProcess

TEMPORAL = Signature("postprocess", "race", "between-warps", "temporal", "-")
SD = Signature("postprocess", "race", "between-warps", "conv", "SD")
DS = Signature("postprocess", "race", "between-warps", "conv", "DS")


def failed(signature: Signature) -> JudgedCase:
    verdict = Verdict("postprocess", "fail", signature=signature, evidence=Evidence("wrong", (), 0, ()))
    return JudgedCase(Outcome((verdict,), Seconds()))


def recipe(domain: str) -> Recipe:
    return Recipe(seed=1, domains=(domain,), operations=("postprocess",), scale="small")  # type: ignore[arg-type]


REACHABLE, TOTAL = case_at(recipe("reachable"), 16), case_at(recipe("total"), 0)

SUBJECT = KernelCases(target="builtin", executor="native", limit=1.0, recipe=recipe("total"))

Ends = Mapping[Signature, tuple[Signature, list[tuple[Case, JudgedCase]]]]


def shrunk(
    monkeypatch: pytest.MonkeyPatch, out: Path, drawn: list[tuple[Signature, Case]], ends: Ends
) -> list[Finding]:
    """Findings of cases 0, 1, ..., each of which shrinks to the signature that `ends` gives, with others on the way."""

    def shrink(case: Case, result: JudgedCase, plan: object, executions: int, until: float) -> Shrunk[Case, JudgedCase]:
        signature = result.outcome.signature
        assert signature is not None
        final, others = ends[signature]
        return Shrunk(case, failed(final), 1, 0.0, True, [], others)

    monkeypatch.setattr("harness.campaign.findings.shrink", shrink)
    # Explaining a finding asks a worker, and leaves it as it is if that gives another answer.
    monkeypatch.setattr("harness.kernel_cases.subject.judged", lambda *_: JudgedCase(Outcome((), Seconds())))
    findings = Findings(SUBJECT, Settings(out=out, cases=10), lambda *_: None)
    for index, (signature, case) in enumerate(drawn):
        findings.record(index, case, failed(signature), Key(str(signature)))
    worker: WorkerProcess = object.__new__(WorkerProcess)  # nothing is asked of it
    for event in findings.finish(worker):
        if isinstance(event, FindingFound | FindingKept):
            assert str(read_repro(event.path).signature) == event.key.signature
    ended = Ended(len(drawn), 1.0, 1.0, 0, None, False)
    return SUBJECT.summary(Tally(SUBJECT.regimes), findings.summary(), ended).findings


def test_the_lowest_case_represents_a_finding_whichever_comes_first(tmp_path: Path) -> None:
    """Several workers judge, and some are faster."""
    findings = Findings(SUBJECT, Settings(out=tmp_path, cases=30), lambda *_: None)
    events = []
    for index in (20, 3, 21):
        case = case_at(recipe("reachable"), min(index, 20))
        events.append(findings.record(index, case, failed(SD), Key(str(SD))))
    assert [event is not None for event in events] == [True, False, False], "it is new once"
    (drawn,) = (tmp_path / "as-drawn").iterdir()
    assert read_repro(drawn).origin.index == 3
    assert events[0] is not None
    assert events[0].path == drawn, "the file that was announced is there at the end"
    ((_, kept),) = findings.summary()
    assert (kept.index, kept.count, kept.path) == (3, 3, drawn)
    assert findings.cases == 3


def test_findings_that_shrink_to_one_are_merged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Drawn in windows and in temporal states; the minimal form of all is in a temporal one."""
    drawn = [(SD, REACHABLE), (DS, REACHABLE), (TEMPORAL, REACHABLE), (DS, REACHABLE)]
    findings = shrunk(monkeypatch, tmp_path, drawn, {each: (TEMPORAL, []) for each in (SD, DS, TEMPORAL)})
    (finding,) = findings
    assert (finding.signature, finding.cases, finding.first_case) == (str(TEMPORAL), 4, 0)
    assert [str(path) for path in tmp_path.glob("*.json")] == [finding.repro]


@pytest.mark.parametrize("order", [[(SD, TOTAL), (DS, REACHABLE)], [(DS, REACHABLE), (SD, TOTAL)]])
def test_a_reachable_case_represents_findings_that_are_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, order: list[tuple[Signature, Case]]
) -> None:
    findings = shrunk(monkeypatch, tmp_path, order, {SD: (SD, []), DS: (SD, [])})
    (finding,) = findings
    assert (finding.domain, finding.cases) == ("reachable", 2)
    assert read_repro(Path(finding.repro)).case.domain == "reachable"
    assert [str(path) for path in tmp_path.glob("*.json")] == [finding.repro]


def test_what_was_met_while_shrinking_never_takes_the_place_of_what_was_drawn(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    drawn = [(TEMPORAL, REACHABLE), (DS, REACHABLE)]
    ends: Ends = {TEMPORAL: (TEMPORAL, [(TOTAL, failed(SD))]), DS: (SD, [])}
    findings = shrunk(monkeypatch, tmp_path, drawn, ends)
    found = {finding.signature: finding for finding in findings}
    assert found.keys() == {str(TEMPORAL), str(SD)}
    assert (found[str(SD)].cases, found[str(SD)].domain) == (1, "reachable")
    assert found[str(SD)].shrink is not None


def test_what_another_finding_met_is_saved_and_counts_no_case(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ends: Ends = {TEMPORAL: (TEMPORAL, [(TOTAL, failed(SD))])}
    findings = shrunk(monkeypatch, tmp_path, [(TEMPORAL, REACHABLE)], ends)
    (met,) = [finding for finding in findings if finding.signature == str(SD)]
    assert (met.cases, met.shrink) == (0, None)
    assert "met-while-shrinking" in met.repro

"""Summaries of campaigns that no test has to run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.end_to_end.summary import EngineSummary
from harness.kernel_cases.summary import CaseSummary, Finding
from harness.sequences.summary import SequenceFinding, SequenceSummary

WRONG_STATE_READ = "sequence/meaning/wrong-state-read/mamba/-"


def case_summary(*issues: str | None, **values: Any) -> CaseSummary:
    """A summary with a finding for each of `issues`, which it looks like; None: it looks like none."""
    findings = [
        Finding(f"precopy/memory/wrong-bytes/object-{i}/-", "wrong", "reachable", i, 1, None, None, issue)
        for i, issue in enumerate(issues)
    ]
    fields: dict[str, Any] = {
        "seed": 0,
        "target": "vllm==0.25.0",
        "executor": "native",
        "engine": "random",
        "domain": "reachable",
        "cases": 9,
        "cases_judged": 9,
        "judged": {"precopy": 9},
        "skipped": {},
        "skips": {},
        "launches": 9,
        "in_this_part": 9,
        "seconds": 1.0,
        "whole_seconds": 1.0,
        "cases_per_second": 9.0,
        "regimes": {},
        "unjudged": {},
        "kernel_lines": [],
        "findings": findings,
        "exit_status": 1 if findings else 0,
        "missing": [],
        "harness_failures": 0,
        "lacking": {},
        "relations": {},
    }
    return CaseSummary(**{**fields, **values})


def sequence_finding(
    issue: str | None = None, repro: str | None = "f.json", *, minimal: bool = True
) -> SequenceFinding:
    return SequenceFinding(WRONG_STATE_READ, issue, "this is that", 4, 2, 13, repro, minimal)


def sequence_summary(
    findings: Sequence[SequenceFinding] = (), *, missing: Sequence[str] = (), fixes: Sequence[str] = ()
) -> SequenceSummary:
    return SequenceSummary(
        target="vllm==0.33.0",
        seed=1,
        sequences=2200,
        steps=9000,
        steps_per_second=1000.0,
        seconds=9.0,
        whole_seconds=9.5,
        in_this_part=2200,
        skipped={"a lacks b": 1700, "no c": 48},
        counters={"steps": 9000},
        fixes=list(fixes),
        fixes_without_effect=list(fixes[:1]),
        findings=list(findings),
        missing=list(missing),
        harness_failures=0,
        exit_status=1 if findings else 3 if missing else 0,
    )


def engine_summary(findings: Sequence[SequenceFinding] = ()) -> EngineSummary:
    return EngineSummary(
        target="vllm==0.33.0",
        build="cpu",
        seed=1,
        sequences=40,
        steps=900,
        steps_per_second=12.5,
        in_this_part=40,
        seconds=72.0,
        whole_seconds=80.0,
        skipped={},
        counters={"steps": 900},
        fixes=[],
        fixes_without_form=[],
        findings=list(findings),
        missing=[],
        harness_failures=0,
        exit_status=1 if findings else 0,
    )

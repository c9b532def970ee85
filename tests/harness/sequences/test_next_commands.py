"""After a run of sequences the next commands are about a finding that is no known issue, if there is one."""

from __future__ import annotations

import msgspec
import pytest

from harness.subject.faults import Fault
from tests.summaries import sequence_finding, sequence_summary


@pytest.mark.parametrize(
    ("fixes", "issues", "first", "ending"),
    [
        ((), ("left-out-row", None), "1.json", " --fixes none --fail-fast"),
        (("left-out-row",), ("left-out-row", "drained-queue"), "0.json", "vllm==0.33.0 --fail-fast"),
    ],
)
def test_a_new_finding_comes_first(
    fixes: tuple[str, ...], issues: tuple[str | None, ...], first: str, ending: str
) -> None:
    findings = [sequence_finding(issue, f"{number}.json") for number, issue in enumerate(issues)]
    faults = [Fault("a fault", [], [number]) for number in range(len(findings))]
    summary = msgspec.structs.replace(sequence_summary(findings, fixes=fixes), faults=faults)
    show, replay, again = [line.text for line in summary.lines(verbose=False) if line.word == "next"]
    assert show == f"harness show {first}"
    assert replay.startswith(f"harness replay {first} ")
    assert again.endswith(ending)

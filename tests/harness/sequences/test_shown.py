"""The output of a campaign of sequences: what runs, each finding when it is done, the answer in the last line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.campaign.events import CampaignFinished, FindingKept
from harness.check.outcome import Evidence, Signature
from harness.issues.registry import lines_about
from harness.reports.registry import reporter
from harness.repro import Origin, SequenceRepro
from harness.sequences.recipe import SequenceRecipe, sequence_at
from harness.sequences.summary import SequenceSummary
from harness.subject.faults import SEVERAL
from harness.subject.subject import Key
from tests.summaries import WRONG_STATE_READ as SIGNATURE
from tests.summaries import sequence_finding as finding
from tests.summaries import sequence_summary as summary

ROOT = Path(__file__).resolve().parents[3]
STAND_IN = Path(__file__).with_name("stand_in_release.py")


SIZE = "452 sequences, 9000 steps"


def printed(event: CampaignFinished | FindingKept, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What a terminal shows of an event."""
    capsys.readouterr()
    with reporter("terminal") as handle:
        handle(event)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        (summary([finding("a"), finding("a+b"), finding()]), "3 findings: 2 known issues, 1 new"),
        (summary([finding()]), "1 finding: 1 new"),
        (summary([finding("a")], missing=["x"]), "1 finding: 1 known issue, 0 new"),
        (summary(missing=["x"]), f"nothing found in {SIZE}, less than a campaign has to meet (MISSING, above)"),
        (summary(fixes=["p", "q"]), f"nothing found in {SIZE} (known issues were kept out)"),
        (summary(), f"nothing found in {SIZE}"),
    ],
)
def test_the_last_line_is_the_answer(given: SequenceSummary, answer: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(CampaignFinished(given), capsys)
    assert lines[-1] == answer
    assert lines[0].startswith("vllm==0.33.0: 452 sequences (1748 more skipped), 9000 steps in 9 s")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ["9000 steps in 9 s (1000 steps a second of processor time)"]),
        ({"in_this_part": 7}, ["9000 steps (1000 steps a second of processor time); this part ran 7 of 2200 in 9 s"]),
        ({"in_this_part": 0}, ["9000 steps (1000 steps a second of processor time); this part ran nothing"]),
        (
            {"whole_seconds": 15.0},
            [
                "9000 steps in 9 s (1000 steps a second of processor time)",
                "15.0 s with sorting findings out",
            ],
        ),
    ],
)
def test_a_time_is_that_of_judging_in_this_part(
    changes: dict[str, Any], expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    given = msgspec.structs.replace(summary(), **changes)
    lines = printed(CampaignFinished(given), capsys)
    expected[0] = f"vllm==0.33.0: 452 sequences (1748 more skipped), {expected[0]}"
    assert lines[: len(expected)] == expected
    assert lines[len(expected)].split() == ["steps", "9000"]


@pytest.mark.parametrize("ran", [True, False])
def test_host_code_that_never_ran_is_listed_separately(ran: bool, capsys: pytest.CaptureFixture[str]) -> None:
    given = summary(fixes=["p"])
    given.counters["V1 host code not run: it needs b"] = 3
    given.counters["sequences of V2 host code"] = 9
    if ran:
        given.counters["sequences of V1 host code"] = 1
    lines = printed(CampaignFinished(given), capsys)
    assert ("NOT RUN V1 host code not run: it needs b (3 sequences)" in lines) is not ran
    nothing = f"nothing found in {SIZE} (known issues were kept out)"
    assert lines[-1] == (nothing if ran else f"{nothing}, and host code could not be run (NOT RUN, above)")


def test_fixes_that_change_nothing_are_not_listed(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(CampaignFinished(summary(fixes=["idle", "busy"])), capsys)
    assert "  busy" in lines
    assert not [line for line in lines if "idle" in line]


def test_a_finding_that_is_not_minimal_says_how_to_shrink_it() -> None:
    start = f"{SIGNATURE} in 2 sequences: "
    assert finding().line == f"{start}f.json (13 events)"
    assert finding(minimal=False).line == f"{start}f.json (13 events, not minimal: harness shrink f.json)"
    assert finding(repro=None, minimal=False).line == f"{start}not saved (13 events)"
    assert finding("drained-queue").line.startswith(f"{SIGNATURE} [drained-queue] in 2 ")


def test_a_known_issue_is_described_where_it_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    repro = SequenceRepro(
        signature=Signature("sequence", "meaning", "wrong-state-read", "mamba", "-"),
        evidence=Evidence("this is that"),
        origin=Origin(target="vllm==0.33.0", executor="symbolic", harness_version="0", generator_version=1),
        issue="drained-queue",
        sequence=sequence_at(SequenceRecipe(0), 0),
    )
    key = Key(SIGNATURE, "drained-queue")
    kept = FindingKept("sequence", key, repro, Path("f.json"), 2, tuple(lines_about(key.issue)))
    assert [line.strip() for line in printed(kept, capsys)] == [
        f"kept {SIGNATURE} [drained-queue]",
        "drained-queue: after a pause an asynchronous V1 engine corrects counts that are exact already "
        "(docs/reports/drained-queue.md)",
        "f.json",
    ]


def test_a_whole_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["--seed", "5", "--cases", "40", "--pins", "runner=V1,partial=true", "--out", str(out)]
    done = subprocess.run(
        [sys.executable, "-P", str(STAND_IN), "run", "--ops", "sequences", "-t", "vllm==0.33.0", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert done.stderr == "harness: loading a stand-in ...\n"
    assert lines[0] == "vllm==0.33.0: step sequences, seed 5, pins runner=V1,partial=true, 40 sequences, 1 worker"

    def places(start: str) -> list[int]:
        return [place for place, line in enumerate(lines) if line.startswith(start)]

    found, shrinking, shrunk = places("found sequence/meaning/"), places("note shrinking "), places("shrunk ")
    assert len(found) == len(shrinking) == len(shrunk) == 2
    assert max(found) < min(shrinking)
    assert lines[shrinking[0]].startswith("note shrinking 1 of 2: sequence/meaning/")
    (summed_up,) = places("vllm==0.33.0: 40 sequences, ")
    assert max(shrunk) < summed_up < min(places("finding sequence/meaning/"))
    assert lines[-1] == f"2 findings: 2 new; {SEVERAL}"
    drawn = {line.partition("saved as drawn: ")[2] for line in lines if "saved as drawn: " in line}
    assert drawn == {str(path) for path in (out / "as-drawn").iterdir()}

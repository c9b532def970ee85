"""Standing: which findings count, and what the last line says of them."""

from __future__ import annotations

from typing import Any

import pytest

from harness.subject.standing import Absent, Baseline, ExpiredMute, Muted, NeedlessMute, Standing, StillThere, answered
from harness.subject.summary import Line
from tests.summaries import case_summary, sequence_finding, sequence_summary

MUTED = Muted(finding=0, mute="this", reason="known", until="2026-12-31", link="https://example.org")
NEEDLESS = NeedlessMute(mute="this", cases=400, one_in=4)
EXPIRED = ExpiredMute(mute="that", on="2026-06-14")


def baseline(**changes: Any) -> Baseline:
    given: dict[str, Any] = {"new": [], "still": [], "gone": [], "not_looked_at": [], **changes}
    return Baseline(folder="before", target="vllm==0.32.0", updated="2026-06-14", **given)


@pytest.mark.parametrize(("one_in", "words"), [(1, "(each of its cases showed it,"), (4, "(one in 4 of its cases")])
def test_how_often_a_finding_showed_in_words(one_in: int, words: str) -> None:
    assert words in str(NeedlessMute(mute="this", cases=400, one_in=one_in))


@pytest.mark.parametrize(
    ("standing", "findings", "fails"),
    [
        (Standing(), 0, False),
        (Standing(), 1, True),
        (Standing(muted=[MUTED]), 1, False),
        (Standing(muted=[MUTED]), 2, True),
        (Standing(baseline=baseline(still=[StillThere(finding=0)])), 1, False),
        (Standing(baseline=baseline(new=[0])), 1, True),
        (Standing(muted=[MUTED], baseline=baseline(new=[0])), 1, False),
        (Standing(muted=[MUTED], expired=[EXPIRED]), 1, True),
        (Standing(needless=[NEEDLESS]), 0, True),
    ],
)
def test_what_counts(standing: Standing, findings: int, fails: bool) -> None:
    assert standing.fails(findings) is fails


def test_the_lines_name_each_finding_with_its_standing() -> None:
    standing = Standing(
        muted=[MUTED],
        expired=[EXPIRED],
        needless=[NEEDLESS],
        baseline=baseline(
            new=[2],
            still=[StillThere(finding=0, since="2026-06-01", first_target="vllm==0.31.0"), StillThere(finding=1)],
            gone=[Absent(name="gone", cases=500)],
            not_looked_at=[Absent(name="unknown", cases=3, why_unknown="too few")],
        ),
    )
    assert [f"{line.word}: {line.text}" for line in standing.lines(["a", "b", "c"])] == [
        "muted: a: known, until 2026-12-31 (https://example.org)",
        "EXPIRED: mute of that expired on 2026-06-14",
        "NEEDLESS: mute: this no longer occurs: remove its entry (one in 4 of its cases showed it, and now 400 passed)",
        ": compared with 'before' (vllm==0.32.0, 2026-06-14):",
        "new: c",
        "still: a, first seen 2026-06-01 in vllm==0.31.0",
        "still: b",
        "gone: gone (500 cases in its situation passed)",
        "not looked at: unknown: too few",
    ]


@pytest.mark.parametrize(
    ("standing", "findings", "status", "text", "tone"),
    [
        (None, 1, 1, "x", "bad"),
        (Standing(muted=[MUTED]), 1, 0, "x; 1 muted; no finding counts (status 0)", "warning"),
        (Standing(muted=[MUTED]), 2, 1, "x; 1 muted", "bad"),
        (Standing(baseline=baseline(new=[0])), 1, 1, "x; 1 new since 'before'", "bad"),
        (Standing(expired=[EXPIRED]), 0, 1, "x; mute of that expired on 2026-06-14 (status 1)", "bad"),
    ],
)
def test_the_last_line(standing: Standing | None, findings: int, status: int, text: str, tone: str) -> None:
    assert answered(Line("", "x", "bad"), standing, findings, status) == Line("", text, tone)  # type: ignore[arg-type]


def test_summaries_of_all_subjects_say_it() -> None:
    kernels = case_summary(None, standing=Standing(muted=[MUTED]), exit_status=0)
    sequences = sequence_summary([sequence_finding()])
    sequences.standing, sequences.exit_status = Standing(muted=[MUTED]), 0
    for summary in (kernels, sequences):
        assert Line("muted", f"{summary.findings[0].signature}: {MUTED.why}", "dim") in summary.lines(verbose=False)
        answer = summary.answer()
        assert answer is not None
        assert answer.text.endswith("1 muted; no finding counts (status 0)")
        assert answer.tone == "warning"


def test_a_run_without_findings_says_why_it_fails() -> None:
    answer = case_summary(standing=Standing(expired=[EXPIRED]), exit_status=1).answer()
    assert answer == Line("", "nothing found in 9 cases; mute of that expired on 2026-06-14 (status 1)", "bad")

"""Findings of one fault are one entry: what joins them, what keeps them apart, and which of them comes first."""

from __future__ import annotations

import pytest

from harness.case import Case
from harness.check.outcome import CodePlace, Diagnosis, Evidence, Signature
from harness.engines.random import Recipe, case_at
from harness.repro import Origin, Repro
from harness.subject.edits import MOST_NAMED, EditedLines, edits_in_words
from harness.subject.faults import Facts, fault_lines, grouped, next_lines

LINE = (CodePlace("vllm/v1/worker/mamba_utils.py", 157, "_memcpy", "store"),)
ELSEWHERE = (CodePlace("vllm/v1/worker/mamba_utils.py", 290, "_copy", "store"),)


def a_case() -> Case:
    return case_at(Recipe(seed=1, domains=("reachable",), operations=("precopy",), scale="small"), 0)


def found(
    oracle: str = "memory",
    violation: str = "wrong-bytes",
    places: tuple[CodePlace, ...] = (),
    families: tuple[str, ...] = (),
    issue: str | None = None,
    size: int = 1,
    met_in: int | None = None,
) -> Facts:
    diagnosis = Diagnosis(families, f"as if {families}", families=families) if families else None
    evidence = Evidence(f"{oracle} {violation}", places=places, diagnosis=diagnosis)
    origin = Origin(target="builtin", executor="native", harness_version="0", generator_version=1)
    signature = Signature("precopy", oracle, violation, "temporal", "-")
    repro = Repro(signature=signature, evidence=evidence, origin=origin, case=a_case())
    return Facts(repro, issue, f"{issue}: what it is" if issue else "", (size,), met_in)


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        (found(issue="a"), found("race", "between-warps", issue="a"), "known issue a"),
        (found(issue="a", families=("bias",)), found(families=("bias",)), ""),
        (found("exception", "ValueError", LINE), found("exception", "ValueError", LINE), "ValueError raised at "),
        (found("exception", "ValueError", LINE), found("exception", "KeyError", LINE), ""),
        (found("exception", "ValueError", LINE), found("exception", "ValueError", ELSEWHERE), ""),
        (found(families=("bias", "tail")), found("race", families=("bias",)), "diagnosis: bias"),
        (found(families=("bias",), places=LINE), found(families=("tail",), places=LINE), ""),
        (found(places=LINE), found(families=("tail",), places=LINE), "line vllm/v1/worker/mamba_utils.py:157"),
        (found(places=LINE), found(places=ELSEWHERE), ""),
        (found(places=LINE), found("race", "between-warps", places=LINE), ""),
        (found("access", "out-of-bounds", LINE), found("race", "between-warps", LINE), "line vllm/"),
        (found(), found(), ""),
        (found(), found("race", met_in=0), "met while shrinking"),
    ],
)
def test_what_two_findings_share(one: Facts, other: Facts, shared: str) -> None:
    faults = grouped([one, other])
    if not shared:
        assert [fault.findings for fault in faults] == [[0], [1]]
        return
    (fault,) = faults
    assert fault.findings == [0, 1]
    assert fault.shared[0].startswith(shared)


def test_what_joins_is_passed_on_and_the_simplest_comes_first() -> None:
    many = [
        found(families=("bias",), size=9),
        found(issue="a"),
        found(families=("bias", "tail"), size=3),
        found(families=("tail",), size=5),
    ]
    faults = grouped(many)
    assert [fault.findings for fault in faults] == [[2, 3, 0], [1]]
    assert faults[1].title == "a: what it is"
    assert faults[0].title == "as if ('bias', 'tail')"


def test_lines_name_the_others_under_the_first() -> None:
    faults = grouped([found(issue="a", size=2), found(issue="a"), found()])
    texts = [
        f"{line.word} {line.text}".rstrip()
        for line in fault_lines(
            faults, ["one", "two", "three"], [["first"], ["second", "diagnosis: why"], ["memory wrong-bytes"]]
        )
    ]
    assert texts == [
        "finding two",
        "   a: what it is",
        "   second",
        "   diagnosis: why",
        "   1 more finding of it (known issue a):",
        "     one",
        "finding three",
        "   memory wrong-bytes",
    ]


def test_lines_say_which_edited_lines_a_finding_ran() -> None:
    """Under the first of a fault, and under another one if it ran other lines."""
    faults = grouped([found(issue="a"), found(issue="a", size=2), found(issue="a", size=3), found()])
    lines = fault_lines(
        faults, ["one", "two", "three", "four"], [["said"]] * 4, ["ran this", "ran this", "ran that", ""]
    )
    texts = [line.text.strip() for line in lines if "ran" in line.text or line.text.strip() in ("one", "two", "three")]
    assert texts == ["one", "ran this", "two", "three", "ran that"]


@pytest.mark.parametrize(
    ("ran", "words"),
    [
        ([], ""),
        ([(7,)], "edited lines that this finding ran: vllm/a.py:7 (f)"),
        ([(7, 8, 9), (12, 15)], "edited lines that this finding ran: vllm/a.py:7-9 (f), vllm/a.py:12 and 15 (f)"),
    ],
)
def test_edited_lines_in_words(ran: list[tuple[int, ...]], words: str) -> None:
    assert edits_in_words([EditedLines("vllm/a.py", "f", lines) for lines in ran]) == words


def test_of_many_edits_the_first_are_named() -> None:
    words = edits_in_words([EditedLines("vllm/a.py", "f", (line,)) for line in range(1, MOST_NAMED + 3)])
    assert words.count("vllm/a.py:") == MOST_NAMED
    assert words.endswith(", and 2 more")


def test_what_to_type_next_needs_a_file() -> None:
    assert next_lines(None, "builtin", "harness run") == []
    shown, replayed, again = next_lines("f.json", "path:../vllm", "harness run --fail-fast")
    assert (shown.text, replayed.text) == ("harness show f.json", "harness replay f.json -t path:../vllm")
    assert again.text == "harness run --fail-fast"

"""A human-readable repro: everything that a reader of a bug report needs, and none of it interpreted as markup."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from harness.case import (
    Buffer,
    Case,
    Group,
    InvalidCase,
    Layer,
    Layout,
    Postprocess,
    PostprocessRow,
    Precopy,
    PrecopyRow,
    TemporalState,
)
from harness.check.outcome import Difference, Evidence, Outcome, Seconds, Signature, Verdict
from harness.reports.case_in_words import SHOWN_STATES
from harness.reports.drawn import print_picture
from harness.reports.replayed import print_replayed
from harness.reports.shown import print_repro
from harness.reports.words import violation_in_words
from harness.repro import Origin, Repro, read_repro
from harness.subject.subject import Replayed

CORPUS = Path(__file__).resolve().parents[2] / "corpus"
SIGNATURE = Signature("precopy", "memory", "wrong-bytes", "temporal", "-")
DIFFERENCE = Difference(
    violation="wrong-bytes",
    object="temporal",
    place="group 1, layer 0, temporal state 0, block 4",
    offset=8448,
    size=3,
    before="aa bb cc",
    expected="01 02 03",
    found="0a 0b 0c",
)


def repro_of(case: Case) -> Repro:
    return Repro(
        signature=SIGNATURE,
        evidence=Evidence("block 4 [i]holds[/i] the wrong bytes", (DIFFERENCE,), 40, ("detail [b]one[/b]",)),
        origin=Origin(target="builtin", executor="native", harness_version="1", generator_version=1, seed=9, index=4),
        case=case,
    )


def test_everything_is_printed(
    make_case: Callable[..., Case], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # or columns of a table are folded
    rows = (
        PostprocessRow(slot=2, scheduled=3, computed=1, draft=2, accepted=3, state_column=0),
        PostprocessRow(slot=-1, scheduled=3, computed=1, draft=2, accepted=3, state_column=0),
    )
    case = make_case(
        Postprocess(runner="V2", rows=rows),
        Precopy(runner="V1", rows=(PrecopyRow(slot=0, source_column=-1, destination_column=1, bias=0),)),
        conv_layout="DS",
        tables=(((1,), (), (1, 2, 2)), ((3,), (), (3, 4, 4))),
    )
    print_repro(Path("bug.json"), repro_of(case))
    out = " ".join(capsys.readouterr().out.split())
    for text in (
        "precopy/memory/wrong-bytes/temporal/-",
        "bug.json: found on builtin (native), seed 9, case 4; total domain",
        "block size 4 tokens, 2 speculative tokens, 5 blocks, conv layout DS, tables of 3 rows x 4 columns",
        "blocks 64 bytes (34 of padding) apart",
        "group 0, slot 2: 1 2 2",
        "group 1, slot 2: 3 4 4",
        "request 0 (slot 2): computed 1, scheduled 3, of them 2 drafts, accepted 3, running state in column 0",
        "column 0 moves to column 0, shifted by 2 tokens; accepted becomes 1",
        "request 1: skipped by the mapping",
        "slot 2: group 0, layer 0, conv state 0: block 1 -> block 1, 4 rows of 2 bytes",
        "slot 2: group 0, layer 0, temporal state 1: block 2 -> block 1, 24 bytes",
        "request 0 (slot 0): fresh to column 1, bias 0 -> nothing moves",
        "block 4 [i]holds[/i] the wrong bytes",
        "bytes that had to be written hold something else (violation wrong-bytes)",
        "docs/violations.md explains a finding's name",
        "group 1, layer 0, temporal state 0, block 4: wrong bytes, 3 bytes before aa bb cc expected 01 02 03 found 0a",
        "40 bytes differ in all",
        "detail [b]one[/b]",
    ):
        assert text in out, text


def test_each_run_of_bytes_says_what_happened_to_it(
    make_case: Callable[..., Case], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In lines that fit a narrow terminal, and every sentence once."""
    monkeypatch.setenv("COLUMNS", "80")
    hexadecimal = " ".join(["7f"] * 16)
    changes: list[dict[str, object]] = [
        {"found": "aa bb cc"},
        {"found": "0a 0b 0c"},
        {"violation": "stray-write", "size": 1, "before": "00", "expected": "00", "found": "01"},
        {"size": 123, "before": hexadecimal, "expected": hexadecimal, "found": hexadecimal},
    ]
    differences = tuple(msgspec.structs.replace(DIFFERENCE, **change) for change in changes)
    evidence = Evidence("it broke", differences, 130, ("more", "it broke", "more"))
    print_repro(Path("bug.json"), msgspec.structs.replace(repro_of(make_case()), evidence=evidence))
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[2] for line in lines if line.startswith(DIFFERENCE.place)] == [
        "left as before, 3 bytes",
        "wrong bytes, 3 bytes",
        "stray write, 1 byte",
        "left as before, the first 16 of 123 bytes",
    ]
    assert f"    found     {hexadecimal}" in lines
    assert lines.count("it broke") == 1
    assert lines.count("more") == 1, "next to it, as one of several similar ones"


def test_each_wrong_place_is_printed_once(make_case: Callable[..., Case], capsys: pytest.CaptureFixture[str]) -> None:
    sentence = f"{DIFFERENCE.place}: holds the wrong bytes; expected 01 02 03, found 0a 0b 0c"
    evidence = Evidence(sentence, (DIFFERENCE,), 3, ("called here",))
    print_repro(Path("bug.json"), msgspec.structs.replace(repro_of(make_case()), evidence=evidence))
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if DIFFERENCE.place in line] == [f"{DIFFERENCE.place}: wrong bytes, 3 bytes"]
    assert lines[-4:] == [
        "    before    aa bb cc",
        "    expected  01 02 03",
        "    found     0a 0b 0c",
        "  called here",
    ]


def test_one_is_singular(
    make_case: Callable[..., Case], make_layout: Callable[..., Layout], capsys: pytest.CaptureFixture[str]
) -> None:
    state = TemporalState(item_size=1, shape=(1,), buffer=0, offset=0, block_stride=1)
    groups = (Group(layers=(Layer(states=(state,)),)),)
    layout = make_layout(
        groups=groups, buffers=(Buffer(size=5),), block_size=1, num_spec=1, table_rows=1, table_columns=2
    )
    move = Precopy(runner="V1", rows=(PrecopyRow(slot=0, source_column=0, destination_column=1, bias=0),))
    case = make_case(move, layout=layout, tables=(((1, 2),),), owners=(-1, 0, 0, 0, 0))
    print_repro(Path("bug.json"), repro_of(case))
    out = capsys.readouterr().out
    assert "each holds 1 element of 1 byte = 1 byte" in out
    assert "block size 1 token, 1 speculative token, " in out
    assert not re.search(r"\b1 (bytes|tokens|blocks|rows|columns|elements|drafts)\b", out), out


@pytest.mark.parametrize(
    ("oracle", "violation", "meaning"),
    [
        ("exception", "MemoryError", "production code raised MemoryError"),
        ("exception", "refusal", "declines a case that a scheduler can produce"),
        ("isolation", "crash-SIGSEGV", "the process was ended by SIGSEGV"),
        ("isolation", "exit-3", "the process ended itself with status 3"),
        ("race", "between-programs", "nothing orders them"),
        ("access", "out-of-bounds", "outside everything that the kernel may touch"),
        ("memory", "of the future", "of the future"),
    ],
)
def test_violations_have_words(oracle: str, violation: str, meaning: str) -> None:
    assert meaning in violation_in_words(oracle, violation)


def test_what_is_outside_the_preconditions_is_refused(make_case: Callable[..., Case]) -> None:
    with pytest.raises(InvalidCase, match="one copy writes bytes"):
        print_repro(Path("bug.json"), repro_of(make_case(tables=(((1, 2),), ((2, 1),)))))


def test_many_states_are_not_all_listed(
    make_case: Callable[..., Case], make_layout: Callable[..., Layout], capsys: pytest.CaptureFixture[str]
) -> None:
    state = TemporalState(item_size=1, shape=(1,), buffer=0, offset=0, block_stride=8)
    states = tuple(msgspec.structs.replace(state, offset=i) for i in range(8))
    groups = (Group(layers=(Layer(states=states),) * 40),)
    layout = make_layout(groups=groups, buffers=(Buffer(size=40),))
    still = Precopy(runner="V1", rows=())
    case = make_case(still, layout=layout, tables=((),), owners=(-1, 0, 0, 0, 0))
    print_repro(Path("bug.json"), repro_of(case))
    assert f"and {320 - SHOWN_STATES} more states" in capsys.readouterr().out


def replayed(answer: str, verdict: Verdict, same: bool) -> Replayed:
    return Replayed(
        answer=answer,  # type: ignore[arg-type]
        target="builtin",
        executor="native",
        same=same,
        signature=None if verdict.signature is None else str(verdict.signature),
        summary="",
        result=Outcome((verdict,), Seconds()),
    )


@pytest.mark.parametrize(
    ("answer", "verdict", "same", "status", "lines"),
    [
        ("FIXED", Verdict("precopy", "pass"), False, 0, ["FIXED bug.json on builtin (native)"]),
        (
            "FAILED",
            Verdict("precopy", "fail", signature=SIGNATURE, evidence=Evidence("bad [x]")),
            True,
            1,
            ["FAILED bug.json on builtin (native)", "bad [x]"],
        ),
        (
            "FAILED",
            Verdict(
                "precopy",
                "fail",
                signature=Signature("precopy", "memory", "stray-write", "guard", "-"),
                evidence=Evidence("other"),
            ),
            False,
            1,
            [
                "FAILED bug.json on builtin (native)",
                "not as recorded: precopy/memory/wrong-bytes/temporal/- then, precopy/memory/stray-write/guard/- now",
                "other",
            ],
        ),
        (
            "SKIPPED",
            Verdict("precopy", "skip", reason="outside-contract", detail="asserts [that]"),
            False,
            3,
            ["SKIPPED bug.json on builtin (native)", "precopy skipped: outside-contract: asserts [that]"],
        ),
    ],
)
def test_the_answer_of_a_replay(
    make_case: Callable[..., Case],
    capsys: pytest.CaptureFixture[str],
    answer: str,
    verdict: Verdict,
    same: bool,
    status: int,
    lines: list[str],
) -> None:
    result = replayed(answer, verdict, same)
    print_replayed(Path("bug.json"), repro_of(make_case()), result)
    assert capsys.readouterr().out.splitlines() == lines
    assert result.exit_status == status


def test_what_a_file_says_is_shown_literally(
    make_case: Callable[..., Case], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither markup in a table's cells, nor control characters for the terminal."""
    monkeypatch.setenv("COLUMNS", "200")
    difference = msgspec.structs.replace(DIFFERENCE, place="[/red] at :x: \x1b[2J")
    repro = repro_of(make_case())
    evidence = Evidence("one\x1b[2J\x9b31m", (difference,), 3, ("two\x07",))
    print_repro(Path("bug.json"), msgspec.structs.replace(repro, evidence=evidence))
    out = capsys.readouterr().out
    assert "[/red] at :x: ?[" in out
    assert "one?[2J?31m\n" in out
    assert not set(out) & set("\x07\x1b\x9b")


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("address-past-2-63", "programs in shuffled order, addresses of 2**63 and more, checked: memory, races"),
        ("shift-within-block-sd", "programs in natural order, checked: memory, undefined, races"),
    ],
)
def test_how_a_case_is_run_is_shown(file: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(__file__).parents[2] / "corpus" / f"{file}.json"
    repro = read_repro(path)
    assert isinstance(repro, Repro)
    print_repro(path, repro)
    assert f"\nExecution\n{line}\n" in capsys.readouterr().out


@pytest.mark.parametrize("width", [80, 200])
def test_a_picture_is_as_wide_as_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    print_picture(read_repro(CORPUS / "v2-accepted-race-many-programs.json"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "Picture"
    assert lines[2].startswith("8 states of 128")
    assert width - 30 < max(map(len, lines)) <= width


def test_nothing_is_printed_without_a_picture(capsys: pytest.CaptureFixture[str]) -> None:
    print_picture(read_repro(CORPUS / "address-past-2-63.json"))
    assert capsys.readouterr().out == ""

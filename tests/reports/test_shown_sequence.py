"""A human-readable sequence: every event with its request, and no field without information."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from harness.case.sequence import (
    CONTINUATION,
    Abort,
    Add,
    Event,
    Finish,
    Input,
    Pause,
    Reset,
    Resume,
    Segment,
    Step,
)
from harness.issues.registry import DEFAULT_FIXES
from harness.reports.shown_sequence import event_in_words, print_sequence
from harness.repro import SequenceRepro, read_any

CORPUS = Path(__file__).resolve().parents[2] / "corpus" / "sequences"
PROMPT = (Segment(family=0, length=36), Segment(family=11, length=1), Segment(family=CONTINUATION, length=8))


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (
            Add(request=0, prompt=PROMPT, outputs=3),
            "add     request 0, prompt [36 of text 0, 1 of text 11, 8 as the model continues], outputs 3",
        ),
        (
            Add(request=1, prompt=PROMPT[:1], outputs=1, priority=2),
            "add     request 1, prompt [36 of text 0], outputs 1, priority 2",
        ),
        (
            Add(request=1, prompt=PROMPT[:1], outputs=1, resumable=True),
            "add     request 1, prompt [36 of text 0], outputs 1, resumable",
        ),
        (Input(request=1, prompt=PROMPT[:1], outputs=4), "input   request 1, prompt [36 of text 0], outputs 4"),
        (Input(request=1), "input   request 1"),
        (Abort(request=0), "abort   request 0"),
        (Finish(request=7), "finish  request 7"),
        (Reset(), "reset"),
        (Reset(running=True), "reset   running"),
        (Pause(mode="all"), "pause   mode all"),
        (Resume(), "resume"),
        (Step(), "step    repeat 1"),
        (
            Step(drafts=(0, 1), right=(0,), early=True, repeat=3),
            "step    drafts [0, 1], right [0], early, repeat 3",
        ),
    ],
)
def test_an_event_in_words(event: Event, words: str) -> None:
    assert event_in_words(event) == words


def test_everything_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    file = CORPUS / "left-out-row.json"
    _, repro = read_any(file)
    assert isinstance(repro, SequenceRepro)
    print_sequence(file, repro)
    out = capsys.readouterr().out
    assert "\n  left-out-row: a V1 decode that is left out of a step loses its accepted count (docs/reports/" in out
    for text in (
        str(repro.signature),
        "[left-out-row]",
        repro.evidence.summary,
        *repro.evidence.details,
        "fixes of all known issues but left-out-row",
    ):
        assert text in out
    for name in repro.sequence.config.__struct_fields__:
        assert f"\n  {name} " in out
    assert "\n    0 add     request 0, prompt [11 of text 0], outputs 1\n" in out
    assert "\n    2 step    repeat 6\n" in out


def test_what_a_file_says_is_shown_literally(capsys: pytest.CaptureFixture[str]) -> None:
    _, repro = read_any(CORPUS / "left-out-row.json")
    assert isinstance(repro, SequenceRepro)
    evidence = msgspec.structs.replace(repro.evidence, summary="one\x1b[2J [bold]")
    print_sequence(Path("bug.json"), msgspec.structs.replace(repro, evidence=evidence))
    out = capsys.readouterr().out
    assert "one?[2J [bold]" in out
    assert "\x1b" not in out


def test_the_fewer_of_the_fixes_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    file = CORPUS / "left-out-row.json"
    _, repro = read_any(file)
    assert isinstance(repro, SequenceRepro)
    for fixes, named in (
        (("keep-accepted",), "fixes left-out-row; planted faults none"),
        (("keep-accepted", "left-out-row"), "fixes left-out-row; planted faults none"),
        ((*DEFAULT_FIXES, "no-such"), f"fixes {', '.join((*DEFAULT_FIXES, 'no-such'))}; planted faults none"),
        (DEFAULT_FIXES, "fixes of all known issues; planted faults none"),
        (DEFAULT_FIXES[1:], f"fixes of all known issues but {DEFAULT_FIXES[0]}; planted faults none"),
    ):
        print_sequence(file, msgspec.structs.replace(repro, fixes=fixes))
        assert f"Switched: {named}" in capsys.readouterr().out

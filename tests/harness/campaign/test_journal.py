"""Journals that a kill tore, that were edited, or that another campaign is writing."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from harness.campaign.earlier import move_aside
from harness.campaign.journal import CannotResume, Journal
from harness.files import NotSaved
from harness.subject.entry import Entry

HEAD = b'{"a":1}\n'
LINE = b'{"index":3,"steps":5,"seconds":0.5}\n'
ENTRY = Entry(3, 5, 0.5)
LEFT: Any = SimpleNamespace(journal="journal", file_patterns=("*-left.json",), noun="case")
"""What belongs to a campaign, as a subject says it."""


def journal(path: Path) -> Journal:
    return Journal(path, {"a": 1}, "case")


@pytest.mark.parametrize(
    "more",
    [
        LINE[:-9],
        b"\xff\xfe\n",
        b'{"index":4,"x":' + b"[" * 100_000 + b"\n",
        LINE.replace(b"3", b"-3"),
        LINE[:-2] + b',"counters":{"launches":-5}}\n',
    ],
    ids=["torn", "no text", "deep", "index below 0", "count below 0"],
)
def test_lines_that_are_none_are_left_out(tmp_path: Path, more: bytes) -> None:
    path = tmp_path / "journal"
    path.write_bytes(HEAD + LINE + more)
    assert journal(path).read() == [ENTRY]


@pytest.mark.parametrize("torn", [HEAD[:-1], HEAD[:-3], b""])
def test_nothing_resumes_from_a_torn_first_line(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "journal"
    path.write_bytes(torn)
    writing = journal(path)
    with pytest.raises(CannotResume):
        writing.read()
    assert move_aside(tmp_path, [LEFT]) == tmp_path / "earlier.1"
    assert (tmp_path / "earlier.1" / "journal").read_bytes() == torn
    assert move_aside(tmp_path, [LEFT]) is None
    writing.open(resume=False)
    writing.close()
    (tmp_path / "earlier.2").symlink_to(tmp_path / "nowhere")
    assert move_aside(tmp_path, [LEFT]) == tmp_path / "earlier.3"
    writing.open(resume=False)
    writing.append(ENTRY)
    writing.close()
    assert path.read_bytes() == HEAD + LINE
    assert journal(path).read() == [ENTRY]


def test_files_without_a_journal_are_moved_aside_too(tmp_path: Path) -> None:
    names = ("a-left.json", "as-drawn/b-left.json", "met-while-shrinking/c-left.json", "harness-failures/d-case-1.txt")
    for name in (*names, "notes.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    assert move_aside(tmp_path, [LEFT]) == tmp_path / "earlier.1"
    assert all((tmp_path / "earlier.1" / name).read_text() == name for name in names)
    assert [path.name for path in tmp_path.rglob("*.json") if "earlier.1" not in path.parts] == ["notes.json"]


def test_what_a_running_campaign_writes_is_not_moved(tmp_path: Path) -> None:
    running = journal(tmp_path / "journal")
    running.open(resume=False)
    with pytest.raises(NotSaved) as caught:
        move_aside(tmp_path, [LEFT])
    assert "another campaign is writing here" in str(caught.value.error)
    running.close()
    assert move_aside(tmp_path, [LEFT]) is not None


@pytest.mark.parametrize("resume", [True, False])
def test_two_campaigns_write_no_journal_together(tmp_path: Path, resume: bool) -> None:
    first, second = (journal(tmp_path / "journal") for _ in range(2))
    first.open(resume=False)
    first.append(ENTRY)
    with pytest.raises(NotSaved) as caught:
        second.open(resume=resume)
    assert "another campaign is writing here" in str(caught.value.error)
    second.close()
    first.close()
    second.open(resume=True)
    second.close()
    assert second.read() == [ENTRY]


@pytest.mark.parametrize(
    ("there", "difference"),
    [
        (b'{"a":2}', "a 2, not 1"),
        (b'{"a":1,"b":["x","y"]}', "b x, y, not none"),
        (b'{"a":1,"pins":{"runner":"V1"}}', "pins runner V1, not none"),
        (b'{"a":["p","q","r","s","t"]}', "a p, q, r and 2 more, not 1"),
        (b"[1]", "its first line does not say which"),
    ],
)
def test_a_refusal_says_how_the_other_campaign_differs(tmp_path: Path, there: bytes, difference: str) -> None:
    path = tmp_path / "journal"
    path.write_bytes(there + b"\n")
    with pytest.raises(CannotResume) as refused:
        journal(path).read()
    assert str(refused.value) == f"{path} is another campaign's: {difference}"


@pytest.mark.parametrize(
    ("there", "here", "difference"),
    [
        ([], list("pqrst"), "none, not p, q, r and 2 more"),
        (list("pqrst"), list("pqrsu"), "with t and without u"),
        (list("pq"), list("pqr"), "without r"),
        (list("pq"), list("qp"), "in another order"),
        (list("pq"), list("rs"), "p, q, not r, s"),
    ],
)
def test_of_long_lists_only_differences_are_shown(
    tmp_path: Path, there: list[str], here: list[str], difference: str
) -> None:
    path = tmp_path / "journal"
    path.write_bytes(msgspec.json.encode({"fixes": there}) + b"\n")
    with pytest.raises(CannotResume) as refused:
        Journal(path, {"fixes": here}, "case").read()
    assert str(refused.value) == f"{path} is another campaign's: fixes {difference}"


def test_a_case_that_was_answered_and_then_lost_has_two_lines(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    lost = b'{"index":3,"signature":"process-exit-3"}\n'
    path.write_bytes(HEAD + LINE + lost + LINE)
    assert journal(path).read() == [ENTRY, Entry(3, signature="process-exit-3")]


@pytest.mark.parametrize("resume", [True, False])
def test_a_journal_that_is_a_pipe_is_refused(tmp_path: Path, resume: bool) -> None:
    """Opening it would wait for a reader."""
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path / "link"):
        with pytest.raises(OSError, match="not a regular file") as refused:
            journal(path).read() if resume else journal(path).open(resume=False)
        assert path.is_fifo()
        assert refused.value.filename == str(path)


@pytest.mark.parametrize("holds", [None, b"", HEAD[:-1]])
def test_nothing_resumes_from_nothing(tmp_path: Path, holds: bytes | None) -> None:
    path = tmp_path / "journal"
    if holds is not None:
        path.write_bytes(holds)
    with pytest.raises(CannotResume):
        journal(path).read()
    assert path.exists() == (holds is not None)

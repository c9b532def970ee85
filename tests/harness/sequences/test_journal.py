"""Journals that a kill tore, that somebody edited, or that another campaign is writing."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.campaign.saving import NotSaved
from harness.sequences.journal import CannotGoOn, Entry, Journal

HEAD = b'{"a":1}\n'
LINE = b'{"index":3,"steps":5,"seconds":0.5,"counters":{}}\n'
ENTRY = Entry(3, 5, 0.5, {})


@pytest.mark.parametrize(
    "more",
    [LINE[:-9], b"\xff\xfe\n", b'{"index":4,"x":' + b"[" * 100_000 + b"\n", LINE.replace(b"3", b"-3")],
    ids=["torn", "no text", "deep", "index below 0"],
)
def test_lines_that_are_none_are_left_out(tmp_path: Path, more: bytes) -> None:
    path = tmp_path / "journal"
    path.write_bytes(HEAD + LINE + more)
    assert Journal(path, {"a": 1}).read() == [ENTRY]


@pytest.mark.parametrize("torn", [HEAD[:-1], HEAD[:-3], b""])
def test_nothing_goes_on_from_a_torn_first_line(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "journal"
    path.write_bytes(torn)
    journal = Journal(path, {"a": 1})
    with pytest.raises(CannotGoOn):
        journal.read()
    assert journal.open(go_on=False) == tmp_path / "earlier.1"
    assert (tmp_path / "earlier.1" / "journal").read_bytes() == torn
    journal.close()
    (tmp_path / "earlier.2").symlink_to(tmp_path / "nowhere")
    assert journal.open(go_on=False) == tmp_path / "earlier.3"
    journal.append(ENTRY)
    journal.close()
    assert path.read_bytes().startswith(HEAD)
    assert Journal(path, {"a": 1}).read() == [ENTRY]


@pytest.mark.parametrize("go_on", [True, False])
def test_two_campaigns_write_no_journal_together(tmp_path: Path, go_on: bool) -> None:
    first, second = (Journal(tmp_path / "journal", {"a": 1}) for _ in range(2))
    first.open(go_on=False)
    first.append(ENTRY)
    with pytest.raises(NotSaved) as caught:
        second.open(go_on=go_on)
    assert "another campaign is writing here" in str(caught.value.error)
    second.close()
    first.close()
    second.open(go_on=True)
    second.close()
    assert second.read() == [ENTRY]

"""What workers say at the end of one part of a campaign is known in the next."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from harness.campaign.remembered import Remembered
from harness.campaign.settings import Settings
from harness.kernel_cases.line_coverage import KernelLines
from harness.subject.edits import EditedLines, EditTally, answer

if TYPE_CHECKING:
    from tests.harness.campaign.conftest import Ran

Run = Callable[..., "Ran"]
Make = Callable[..., Settings]


class Remembering:
    """A subject that remembers a list."""

    def __init__(self, *known: int) -> None:
        self.known = list(known)

    def remembered(self) -> bytes:
        return msgspec.json.encode(self.known)

    def recall(self, said: bytes) -> None:
        self.known += msgspec.json.decode(said, type=list[int])


def test_what_was_said_is_recalled_also_of_several_and_without_damaged_lines(tmp_path: Path) -> None:
    remembered: Any = Remembered(tmp_path / "campaign" / "x.remembered")
    new: Any = Remembering()
    assert remembered.recall(new) == 0
    remembered.write(Remembering(1, 2), 5, print)
    with (tmp_path / "campaign" / "x.remembered").open("ab") as file:
        file.write(b'{"cases":9,"said":"no list"}\n\xff\n{"cases":3,"said":[7]}\n{"cases":4,"sai')
    assert (remembered.recall(new), new.known) == (8, [1, 2, 7])
    remembered.write(new, 8, print)
    again: Any = Remembering()
    assert (remembered.recall(again), again.known) == (8, [1, 2, 7])


def test_what_cannot_be_remembered_is_a_notice(tmp_path: Path) -> None:
    (tmp_path / "campaign").write_text("no folder")
    remembered: Any = Remembered(tmp_path / "campaign" / "x.remembered")
    notices: list[str] = []
    remembered.write(Remembering(1), 1, notices.append)
    assert len(notices) == 1
    assert notices[0].startswith(f"{tmp_path / 'campaign' / 'x.remembered'} cannot be written (")


def test_a_resumed_campaign_knows_whether_it_knows_all(
    run: Run, settings: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers: Any = importlib.import_module("numbers_subject")
    asked: list[bool] = []

    def finish(subject: Any, workers: Any, notice: Any, *, lost: bool, resumed: bool) -> None:
        asked.append(resumed)

    monkeypatch.setattr(numbers.Numbers, "finish", finish)
    run(numbers.Numbers("builtin"), settings(cases=20))
    run(numbers.Numbers("builtin"), settings(resume=True))
    (settings().out / "campaign" / "number.remembered").unlink()
    run(numbers.Numbers("builtin"), settings(resume=True))
    assert asked == [False, False, True]


def test_kernel_lines_are_added_up() -> None:
    first, second = KernelLines(), KernelLines()
    first.recall([("vllm/a.py", "move", 1)], [("vllm/a.py", "move", 1), ("vllm/a.py", "move", 2)])
    second.recall([("vllm/a.py", "move", 2)], [("vllm/a.py", "move", 2), ("vllm/a.py", "move", 3)])
    second.recall(*first.remembered())
    (coverage,) = second.coverage()
    assert (coverage.executed, coverage.lines, coverage.missed) == (2, 3, [3])


def test_edits_count_as_run_only_while_they_are_there() -> None:
    kept, gone, new = (EditedLines("a.py", "move", (line,)) for line in (1, 2, 3))
    tally = EditTally()
    tally.recall([kept, gone])

    class Worker:
        alive = True

        def ask(self, question: str) -> bytes:
            return answer([kept, new], [])

    worker: Any = Worker()
    assert tally.collect([worker]) == 0
    coverage = tally.coverage()
    assert (coverage.lines, coverage.ran, coverage.missed) == (2, 1, [new])
    assert set(tally.remembered()) == {kept, gone}

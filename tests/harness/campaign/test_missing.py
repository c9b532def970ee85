"""What an earlier part of a campaign saw, and a later one does not show, is missing: the campaign is not green."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.campaign.campaign import Campaign
from harness.campaign.events import Event, Notice
from harness.campaign.journal import CannotResume
from harness.campaign.settings import Settings

if TYPE_CHECKING:
    from tests.harness.campaign.conftest import Ran

Run = Callable[..., "Ran"]
Make = Callable[..., Settings]
ENDED_EARLY = 130


@pytest.fixture
def numbers() -> Any:
    """The smallest subject."""
    return importlib.import_module("numbers_subject")


def test_a_finding_that_does_not_happen_again_is_missing(
    numbers: Any, run: Run, settings: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = run(numbers.Numbers("builtin"), settings())
    assert before.summary.exit_status == 1
    monkeypatch.setenv("NUMBERS_ARE_GOOD", "1")
    resumed = run(numbers.Numbers("builtin"), settings(resume=True))
    expected = [f"{signature} of number {index}, which did not happen again" for signature, index, _, _ in before.found]
    assert (resumed.summary.missing, resumed.summary.findings, resumed.summary.exit_status) == (expected, [], 3)


def test_a_failure_of_the_harness_is_not_forgotten(
    numbers: Any, run: Run, settings: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The earlier part ended with status 4, and nobody has judged the case since."""
    index = next(index for index in range(1, 40) if 97 in numbers.draw(0, index))
    monkeypatch.setenv("NUMBERS", "incomplete:97")
    before = run(numbers.Numbers("vllm==0.33.0"), settings())
    failures = before.summary.harness_failures
    assert (failures > 0, before.summary.exit_status) == (True, 4)
    sorted_out = run(numbers.Numbers("vllm==0.33.0"), settings(resume=True, cases=None, seconds=0.0))
    assert (sorted_out.summary.harness_failures, sorted_out.summary.exit_status) == (failures, 4)
    monkeypatch.delenv("NUMBERS")
    mended = run(numbers.Numbers("vllm==0.33.0"), settings(resume=True))
    assert index in mended.judged
    assert (mended.summary.harness_failures, mended.summary.exit_status) == (0, 0)


def test_lines_that_cannot_be_read_are_missing_unless_their_cases_are_judged_again(
    numbers: Any, run: Run, settings: Make
) -> None:
    out = run(numbers.Numbers("vllm==0.33.0"), settings()).out
    journal = out / numbers.Numbers.journal
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:5], b"nothing\n", *lines[6:]]))
    sorted_out = run(numbers.Numbers("vllm==0.33.0"), settings(resume=True, cases=None, seconds=0.0))
    assert sorted_out.summary.missing == ["what 1 line of the journal said, which cannot be read"]
    assert sorted_out.summary.exit_status == 3
    resumed = run(numbers.Numbers("vllm==0.33.0"), settings(resume=True))
    assert (resumed.judged, resumed.summary.missing, resumed.summary.exit_status) == ([4], [], 0)


def test_findings_that_were_not_judged_again_are_missing(
    numbers: Any, run: Run, settings: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt comes before they are."""
    following: Any = importlib.import_module("harness.campaign.following")
    interruption = importlib.import_module("harness.interruption").Interruption()
    for name in ("campaign", "following"):
        monkeypatch.setattr(f"harness.campaign.{name}.INTERRUPTION", interruption)
    before = run(numbers.Numbers("builtin"), settings())
    events: list[Event] = []

    def handle(event: Event) -> None:
        events.append(event)
        if isinstance(event, Notice) and event.text.startswith("judging again"):
            interruption.take(2)

    with pytest.raises(KeyboardInterrupt):
        following.follow(Campaign(numbers.Numbers("builtin"), settings(resume=True)), handle)
    summary: Any = events[-1].summary  # type: ignore[union-attr]
    assert summary.exit_status == ENDED_EARLY
    (line,) = summary.missing
    assert re.fullmatch(r"\d findings? of the earlier part: not judged again", line)
    assert len(summary.findings) + int(line[0]) == len(before.found)


def test_sorting_out_needs_something_to_sort_out(numbers: Any, settings: Make, tmp_path: Path) -> None:
    given = settings(resume=True, or_start=True, cases=None, seconds=0.0, out=tmp_path / "new")
    with pytest.raises(CannotResume, match=r"there is no .*numbers.journal"):
        Campaign(numbers.Numbers("builtin"), given)

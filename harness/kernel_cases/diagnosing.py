"""Diagnosing looks at a finding's own case and at some drawn ones, and says which deviation reproduces them all.

What it looks at follows from the campaign's recipe and the finding alone: the first cases that failed in the same way,
and some of those drawn after the first of them, right or wrong; where those leave several causes, as many more as it
takes to choose, up to a fixed number. So a diagnosis does not depend on which process saw which cases, nor on when a
campaign was interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from harness.case import Case
from harness.check.outcome import Signature
from harness.check.suspects import Suspects
from harness.engines.random import CASES_PER_LAYOUT

if TYPE_CHECKING:  # not for the parent of workers, which has no torch
    from harness.check.session import Session

LAYOUTS = 12
"""Layouts after that of the first failing case of which cases are looked at."""
OF_EACH = 6
"""Cases of each of them."""
FURTHER_LAYOUTS = 60
"""Layouts after those, as long as deviations of several families are left. Some deviations differ in few layouts:
where groups share memory, reading the first group's table for all of them is the same as moving its states alone."""
OF_EACH_FURTHER = 2


def looked_at(failing: Sequence[int]) -> list[int]:
    """The numbers of the drawn cases that narrow a diagnosis: those of `failing`, the rest of the first one's layout,
    and some of the layouts after it. `failing` is in the order in which cases represent the finding."""
    if not failing:
        return []
    layout = failing[0] // CASES_PER_LAYOUT
    numbers = [*failing, *range(failing[0] + 1, (layout + 1) * CASES_PER_LAYOUT)]
    for later in range(layout + 1, layout + 1 + LAYOUTS):
        numbers += range(later * CASES_PER_LAYOUT, later * CASES_PER_LAYOUT + OF_EACH)
    return list(dict.fromkeys(numbers))


def _further(numbers: Sequence[int]) -> Iterator[int]:
    """The numbers of drawn cases of the layouts after those of `numbers`."""
    layout = max(numbers) // CASES_PER_LAYOUT
    for later in range(layout + 1, layout + 1 + FURTHER_LAYOUTS):
        yield from range(later * CASES_PER_LAYOUT, later * CASES_PER_LAYOUT + OF_EACH_FURTHER)


def _choose(
    session: Session, drawn: Callable[[int], Case], numbers: Iterable[int], suspects: Suspects, finding: Signature
) -> None:
    """Look at drawn cases as long as several deviations are left that may be the cause."""
    for number in numbers:
        left = suspects.undecided(finding)
        if not left:
            return
        suspects.choose_among(left, finding)
        session.check(drawn(number), suspects=suspects)


def narrowed(session: Session, drawn: Callable[[int], Case], numbers: Sequence[int]) -> Suspects:
    """Judge the drawn cases of these `numbers`: what they leave as a cause of the finding whose case comes next."""
    suspects = Suspects()
    finding: Signature | None = None
    for number in numbers:
        failure = session.check(drawn(number), suspects=suspects).failure
        if finding is None and failure is not None:
            finding = failure.signature
    if finding is not None:
        _choose(session, drawn, _further(numbers), suspects, finding)
    suspects.close()
    return suspects

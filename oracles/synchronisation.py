"""Synchronisation is what orders accesses of different programs: atomic accesses to one place.

A program that releases at a place, by an atomic access, publishes what it did before; one that acquires there later
sees it. Atomic accesses to a place happen one after the other, so that each acquires what all earlier ones have
released (a release sequence). A release covers those accesses of the program that a barrier separates from it: one
thread makes an atomic access of one number, and it publishes for the other threads only after they have arrived.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.accesses import Integers, RecordedLaunch

_RELEASES = ("release", "acq_rel")
_ACQUIRES = ("acquire", "acq_rel")

_View = dict[int, tuple[int, int]]
"""What a program knows of the others: for each, its accesses that fewer barriers than this precede, and its atomic
accesses up to this record."""


def ordered(launch: RecordedLaunch, first: Integers, second: Integers) -> NDArray[np.bool_]:
    """Whether atomic accesses order each pair of records of different programs; `first` holds the earlier ones."""
    atomic = is_atomic(launch)
    found = atomic[first] & atomic[second]
    if found.all() or not atomic.any():
        return found
    pairs = np.flatnonzero(~found)
    one, other = first[pairs], second[pairs]
    seen = _seen(launch, np.flatnonzero(atomic))
    barriers, last = _published(seen, launch.program[one], launch.program[other], other)
    found[pairs] = (launch.epoch[one] < barriers) | (atomic[one] & (one <= last))
    return found


def _published(
    seen: dict[int, list[tuple[int, _View]]], earlier: Integers, later: Integers, at: Integers
) -> tuple[Integers, Integers]:
    """What each `later` program knows of the `earlier` one at record `at`, as the two columns of a view."""
    latest = np.full(len(at), -1, dtype=np.int64)
    for program, views in seen.items():
        own = np.flatnonzero(later == program)
        # An atomic access itself acquires before it stores.
        latest[own] = np.searchsorted([record for record, _ in views], at[own], side="right") - 1
    # Most pairs ask the same: each question is answered once.
    programs, views_each = int(later.max()) + 1, int(latest.max()) + 2
    questions = (earlier * programs + later) * views_each + latest + 1
    different = np.unique(questions)
    nothing: tuple[int, int] = (0, -1)
    answers = []
    for question in different.tolist():
        pair, view = divmod(question, views_each)
        of, program = divmod(pair, programs)
        answers.append(seen[program][view - 1][1].get(of, nothing) if view else nothing)
    columns = np.array(answers, dtype=np.int64)[np.searchsorted(different, questions)]
    return columns[:, 0], columns[:, 1]


def is_atomic(launch: RecordedLaunch) -> NDArray[np.bool_]:
    """Whether each record is of an atomic access."""
    atomic: NDArray[np.bool_] = launch.sources.is_atomic[launch.source]
    return atomic


def _seen(launch: RecordedLaunch, atomics: Integers) -> dict[int, list[tuple[int, _View]]]:
    """For each program, its view of the others after each of its atomic accesses, with the record of that access."""
    views: dict[int, list[tuple[int, _View]]] = {}
    released: dict[int, _View] = {}
    orders = [source.order for source in launch.sources]
    columns = (launch.program, launch.offset, launch.epoch, launch.source)
    for record, program, place, barriers, source in zip(
        atomics.tolist(), *(column[atomics].tolist() for column in columns), strict=True
    ):
        order = orders[source]
        own = views.setdefault(program, [])
        view = dict(own[-1][1]) if own else {}
        if order in _ACQUIRES:
            _join(view, released.get(place, {}))
        own.append((record, view))
        if order in _RELEASES:
            view[program] = (barriers, record)
            _join(released.setdefault(place, {}), view)
    return views


def _join(view: _View, other: _View) -> None:
    for program, (barriers, last) in other.items():
        mine = view.get(program, (0, -1))
        view[program] = (max(mine[0], barriers), max(mine[1], last))

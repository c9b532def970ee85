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


def ordered(launch: RecordedLaunch, first: Integers, second: Integers) -> NDArray[np.bool_]:
    """Whether atomic accesses order each pair of records of different programs; `first` holds the earlier ones."""
    atomic = is_atomic(launch)
    found = atomic[first] & atomic[second]
    if not len(first) or not atomic.any():
        return found
    seen = _seen(launch, np.flatnonzero(atomic))
    for pair in np.flatnonzero(~found):
        one, other = int(first[pair]), int(second[pair])
        views = seen.get(int(launch.program[other]), [])
        # The latest view of the later program at that time; an atomic access itself acquires before it stores.
        view = next((view for at, view in reversed(views) if at <= other), None)
        if view is not None:
            barriers, last = view.get(int(launch.program[one]), (0, -1))
            found[pair] = int(launch.epoch[one]) < barriers or (bool(atomic[one]) and one <= last)
    return found


def is_atomic(launch: RecordedLaunch) -> NDArray[np.bool_]:
    """Whether each record is of an atomic access."""
    return np.array([bool(source.order) for source in launch.sources], dtype=bool)[launch.source]


_View = dict[int, tuple[int, int]]
"""What a program knows of the others: for each, its accesses that fewer barriers than this precede, and its atomic
accesses up to this record."""


def _seen(launch: RecordedLaunch, atomics: Integers) -> dict[int, list[tuple[int, _View]]]:
    """For each program, its view of the others after each of its atomic accesses, with the record of that access."""
    views: dict[int, list[tuple[int, _View]]] = {}
    released: dict[int, _View] = {}
    for record in map(int, atomics):
        program, place = int(launch.program[record]), int(launch.offset[record])
        order = launch.sources[launch.source[record]].order
        own = views.setdefault(program, [])
        view = dict(own[-1][1]) if own else {}
        if order in _ACQUIRES:
            _join(view, released.get(place, {}))
        own.append((record, view))
        if order in _RELEASES:
            view[program] = (int(launch.epoch[record]), record)
            _join(released.setdefault(place, {}), view)
    return views


def _join(view: _View, other: _View) -> None:
    for program, (barriers, last) in other.items():
        mine = view.get(program, (0, -1))
        view[program] = (max(mine[0], barriers), max(mine[1], last))

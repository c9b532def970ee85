"""Suspects are the deviations from the specification that reproduce the failing cases of a target.

One case often fits several deviations: with one request, its slot is its batch row. What reproduces all failing cases
that a process has looked at is narrower, and so is what reproduces all those of one signature. If nothing does, no
deviation of the catalogue is the cause, or they have more than one. A deviation that an operation which was right would
have shown is none at all: a few of those are looked at once there are suspects.
"""

from __future__ import annotations

from collections.abc import Collection

from harness.case import operation_name
from harness.check.operation_run import Task
from harness.check.outcome import Signature

MOST_CASES = 8
"""Failing cases of a signature that are looked at."""
SEVERAL = 2
"""With this many failing cases of a signature, what reproduces only one of them is no diagnosis."""
MOST_RIGHT = 48
"""Operations that were right and are looked at, for each scope."""

Scope = tuple[str, str, str]
"""Operation, runner and conv layout: one path through production code."""


def scope_of(task: Task) -> Scope:
    """The path that an operation takes through production code."""
    return operation_name(task.operation), task.operation.runner, task.case.layout.conv_layout


class Suspects:
    """What the cases of one target showed so far."""

    def __init__(self) -> None:
        self._of_cases: dict[Signature, list[frozenset[str]]] = {}
        self._open: dict[Scope, set[str]] = {}
        """Deviations that reproduced a case of a scope and were not refuted in it."""
        self._refuted: dict[Scope, set[str]] = {}
        self._right: dict[Scope, int] = {}

    def wants(self, signature: Signature) -> bool:
        """Whether one more failing case of a signature is to be looked at."""
        return len(self._of_cases.get(signature, ())) < MOST_CASES

    def add(self, signature: Signature, scope: Scope, names: Collection[str]) -> None:
        """Record the deviations that reproduce one case."""
        self._of_cases.setdefault(signature, []).append(frozenset(names))
        self._open.setdefault(scope, set()).update(set(names) - self._refuted.get(scope, set()))

    def questionable(self, scope: Scope) -> Collection[str]:
        """Deviations that an operation of a scope may refute, if it was right."""
        return self._open.get(scope, ()) if self._right.get(scope, 0) < MOST_RIGHT else ()

    def refute(self, scope: Scope, names: Collection[str]) -> None:
        """Record the deviations that an operation which was right would have shown."""
        self._right[scope] = self._right.get(scope, 0) + 1
        self._open.get(scope, set()).difference_update(names)
        self._refuted.setdefault(scope, set()).update(names)

    def narrowed(self, signature: Signature, scope: Scope, names: Collection[str]) -> tuple[tuple[str, ...], int]:
        """Those of `names`, which reproduce a case, that nothing refuted and that reproduce all cases of any signature
        as well, or else all of its own, and how many cases those are. None of them if more than one case was seen and
        no deviation reproduces all of them: then none is the cause for sure."""
        refuted = self._refuted.get(scope, ())
        left = tuple(name for name in names if name not in refuted)
        everything = [case for cases in self._of_cases.values() for case in cases]
        for seen in (everything, self._of_cases.get(signature, [])):
            common = frozenset.intersection(*seen) if seen else frozenset[str]()
            kept = tuple(name for name in left if name in common)
            if kept:
                return kept, len(seen)
        return (left, 0) if len(self._of_cases.get(signature, ())) < SEVERAL else ((), 0)

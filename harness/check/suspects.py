"""Suspects are the deviations from the specification that reproduce the failing cases of a target.

One case often fits several deviations: with one request, its slot is its batch row. What reproduces all failing cases
that a process has looked at is narrower, and so is what reproduces all those of one signature. If nothing does, no
deviation of the catalogue is the cause, or they have more than one. A deviation that an operation which was right would
have shown is none at all: a few of those are looked at once there are suspects. Where deviations of several families
are left, further cases only choose among those: what none of them reproduces has another cause, and chooses nothing.
"""

from __future__ import annotations

from collections.abc import Collection

from harness.case import operation_name
from harness.check.operation_run import Task
from harness.check.outcome import Signature
from harness.oracles.diagnosis.deviation import Form
from harness.oracles.diagnosis.diagnose import families, names_of, without_fitted

MOST_CASES = 16
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
        self._of_cases: dict[Signature, list[frozenset[Form]]] = {}
        self._open: dict[Scope, set[Form]] = {}
        """Deviations that reproduced a case of a scope and were not refuted in it."""
        self._refuted: dict[Scope, set[Form]] = {}
        self._right: dict[Scope, int] = {}
        self._scopes: dict[Signature, Scope] = {}
        self._finding: Signature | None = None
        self.candidates: Collection[str] | None = None
        """The deviations that further cases choose among; None: all of the catalogue."""
        self._closed = False

    def close(self) -> None:
        """Take no more failing cases: the case of the finding itself comes next."""
        self._closed = True

    def wants(self, signature: Signature) -> bool:
        """Whether one more failing case of a signature is to be looked at."""
        if self._closed or self._finding is not None:
            return not self._closed
        return len(self._of_cases.get(signature, ())) < MOST_CASES

    def add(self, signature: Signature, scope: Scope, forms: Collection[Form]) -> None:
        """Record the deviations that reproduce one case."""
        if self._finding is not None:
            if not forms:
                self._closed = signature == self._finding  # so it has more than one cause: all candidates are named
                return
            signature = self._finding
        self._scopes.setdefault(signature, scope)
        self._of_cases.setdefault(signature, []).append(frozenset(forms))
        self._open.setdefault(scope, set()).update(set(forms) - self._refuted.get(scope, set()))

    def undecided(self, signature: Signature) -> tuple[str, ...]:
        """The deviations that are left for a finding, if they are of several families; none if it is decided, or if
        there is nothing left to decide with."""
        if self._closed or signature not in self._scopes:
            return ()
        kept, _ = self.narrowed(signature, self._scopes[signature], None)
        names = without_fitted(names_of(kept))
        return names if len(families(names)) > 1 else ()

    def choose_among(self, names: Collection[str], finding: Signature) -> None:
        """Take further cases, whatever their signature, as a choice among these deviations."""
        self._finding, self.candidates = finding, names

    def questionable(self, scope: Scope) -> Collection[Form]:
        """Deviations that an operation of a scope may refute, if it was right."""
        return self._open.get(scope, ()) if self._right.get(scope, 0) < MOST_RIGHT else ()

    def refute(self, scope: Scope, forms: Collection[Form]) -> None:
        """Record the deviations that an operation which was right would have shown."""
        self._right[scope] = self._right.get(scope, 0) + 1
        self._open.get(scope, set()).difference_update(forms)
        self._refuted.setdefault(scope, set()).update(forms)

    def narrowed(
        self, signature: Signature, scope: Scope, forms: Collection[Form] | None
    ) -> tuple[tuple[Form, ...], int]:
        """Those of `forms`, which reproduce a case, that nothing refuted and that reproduce all cases of any signature
        as well, or else all of its own, and how many cases those are. None of them if more than one case was seen and
        no deviation reproduces all of them: then none is the cause for sure. None as `forms`: the case itself says
        nothing, and the others decide."""
        refuted = self._refuted.get(scope, ())
        if forms is None:
            forms = sorted({form for cases in self._of_cases.values() for case in cases for form in case})
        left = tuple(form for form in forms if form not in refuted)
        everything = [case for cases in self._of_cases.values() for case in cases]
        for seen in (everything, self._of_cases.get(signature, [])):
            common = frozenset.intersection(*seen) if seen else frozenset[Form]()
            kept = tuple(form for form in left if form in common)
            if kept:
                return kept, len(seen)
        return (left, 0) if len(self._of_cases.get(signature, ())) < SEVERAL else ((), 0)

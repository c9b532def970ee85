"""A regime is a named situation that a case can be in: a same-block shift in DS layout, a padded page, ...

Counting regimes shows what a run really tested. A regime is a predicate of the decoded case, never a flag that its
generator set. So a case from a file, a corpus or a shrinker counts as well, and a generator cannot claim too much.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.case import Case, Operation, operation_name
from harness.regimes.facts import Facts

Predicate = Callable[[Facts], bool]


@dataclass(frozen=True)
class Regime:
    """`summary` completes the sentence "the case has ...".

    `reachable`: whether a scheduler can produce it. `of_layout`: whether the layout alone decides. `kind`: an operation
    that every program in it has; None if it is about any operation that moves state. `operation`: the name that users
    ask for to get that operation.
    """

    name: str
    summary: str
    predicate: Predicate
    reachable: bool = True
    of_layout: bool = False
    kind: type[Operation] | None = None
    operation: str | None = None

    def holds(self, case: Case) -> bool:
        """Whether `case` is in this regime."""
        return self.predicate(Facts(case))


def of_layout(name: str, summary: str, predicate: Predicate, *, reachable: bool = True) -> Regime:
    """A regime that the layout alone decides."""
    return Regime(name, summary, predicate, reachable, of_layout=True)


def of_operation(
    kind: type[Operation],
    name: str,
    summary: str,
    predicate: Predicate,
    *,
    reachable: bool = True,
    operation: str | None = None,
) -> Regime:
    """A regime of programs that have an operation of this kind; `operation` is the name that users ask for to get it,
    by default the kind's own name."""
    return Regime(name, summary, predicate, reachable, kind=kind, operation=operation or operation_name(kind))

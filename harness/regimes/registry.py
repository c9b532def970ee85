"""A regime is a named situation that a case can be in: a same-block shift in DS layout, a padded page, ...

Counting regimes shows what a run really tested. A regime is a predicate of the decoded case, never a flag that its
generator set: so a case from a file, a corpus or a shrinker counts as well, and a generator cannot claim too much.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.case import Case, Operation
from harness.regimes.facts import Facts

Predicate = Callable[[Facts], bool]


@dataclass(frozen=True)
class Regime:
    """`summary` completes the sentence "the case has ...".

    `reachable`: whether a scheduler can produce it. `of_layout`: whether the layout alone decides. `operation`: what
    users have to ask for to reach it, by name; None if it is about whatever moves state.
    """

    name: str
    summary: str
    predicate: Predicate
    reachable: bool = True
    of_layout: bool = False
    operation: str | None = None

    def holds(self, case: Case) -> bool:
        """Whether `case` is in this regime."""
        return self.predicate(Facts(case))


REGIMES: dict[str, Regime] = {}


def regimes_of(case: Case) -> frozenset[str]:
    """Names of all regimes that `case` is in."""
    facts = Facts(case)
    of_layout = facts.of_layout.regimes
    if of_layout is None:
        of_layout = frozenset([name for name, predicate in _OF_LAYOUT if predicate(facts)])
        facts.of_layout.regimes = of_layout
    found = [name for name, predicate in _OF_CASE if predicate(facts)]
    for kind in {type(operation) for operation in case.program}:
        found += [name for name, predicate in _OF_OPERATION.get(kind, ()) if predicate(facts)]
    return of_layout.union(found)


_OF_LAYOUT: list[tuple[str, Predicate]] = []
_OF_CASE: list[tuple[str, Predicate]] = []
_OF_OPERATION: dict[type[Operation], list[tuple[str, Predicate]]] = {}


def add(name: str, summary: str, predicate: Predicate, *, reachable: bool = True, of_layout: bool = False) -> None:
    """Register a regime of cases, or of layouts."""
    REGIMES[name] = Regime(name, summary, predicate, reachable, of_layout)
    (_OF_LAYOUT if of_layout else _OF_CASE).append((name, predicate))


def add_of_layout(name: str, summary: str, predicate: Predicate, *, reachable: bool = True) -> None:
    """Register a regime that the layout alone decides."""
    add(name, summary, predicate, reachable=reachable, of_layout=True)


def add_of_operation(
    kind: type[Operation],
    name: str,
    summary: str,
    predicate: Predicate,
    *,
    reachable: bool = True,
    operation: str | None = None,
) -> None:
    """Register a regime of programs that have an operation of this kind; `operation` is what users ask for to get it,
    by default the kind's own name."""
    asked = operation or str(kind.__struct_config__.tag)
    REGIMES[name] = Regime(name, summary, predicate, reachable, operation=asked)
    _OF_OPERATION.setdefault(kind, []).append((name, predicate))

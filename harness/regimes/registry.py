"""The registry of regimes: those of each file, in reading order."""

from __future__ import annotations

from collections.abc import Mapping

from harness.case import Case, Operation
from harness.regimes import around, batches, blocks, decisions, memory
from harness.regimes.facts import Facts
from harness.regimes.regime import Predicate, Regime

_REGIMES: tuple[Regime, ...] = (
    *batches.REGIMES,
    *decisions.REGIMES,
    *blocks.REGIMES,
    *memory.REGIMES,
    *around.REGIMES,
)

REGIMES: Mapping[str, Regime] = {regime.name: regime for regime in _REGIMES}

_OF_LAYOUT = [(regime.name, regime.predicate) for regime in _REGIMES if regime.of_layout]
_OF_CASE = [(regime.name, regime.predicate) for regime in _REGIMES if not regime.of_layout and regime.kind is None]
_OF_OPERATION: dict[type[Operation], list[tuple[str, Predicate]]] = {}
for _regime in _REGIMES:
    if _regime.kind is not None:
        _OF_OPERATION.setdefault(_regime.kind, []).append((_regime.name, _regime.predicate))


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

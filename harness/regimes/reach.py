"""Reach is what decides which regimes a run can be in at all: its domains, and the operations that it draws."""

from __future__ import annotations

from collections.abc import Collection

from harness.case import Domain
from harness.regimes.registry import REGIMES


def out_of_reach(name: str, domains: Collection[Domain], operations: Collection[str]) -> str | None:
    """Why no case of these domains and operations can be in the regime; None if one can."""
    regime = REGIMES[name]
    if regime.operation is not None and regime.operation not in operations:
        return f"it is one of {regime.operation}, which is not among the operations"
    if not regime.reachable and "total" not in domains:
        return "only the total domain has it"
    return None


def within_reach(domains: Collection[Domain], operations: Collection[str]) -> list[str]:
    """The regimes that cases of these domains and operations can be in."""
    return [name for name in REGIMES if out_of_reach(name, domains, operations) is None]

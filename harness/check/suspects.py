"""Suspects are the deviations from the specification that reproduce several failing cases of one signature.

One case often fits several deviations: with one request, its slot is its batch row. What reproduces all failing cases
that a process has looked at is narrower, and so is what reproduces all those of one signature. If nothing does, they
have more than one cause, and each case stands alone.
"""

from __future__ import annotations

from collections.abc import Collection

from harness.check.outcome import Signature

MOST_CASES = 8
"""Cases of a signature that are looked at."""


class Suspects:
    """What the failing cases of one target showed so far."""

    def __init__(self) -> None:
        self._of_cases: dict[Signature, list[frozenset[str]]] = {}

    def wants(self, signature: Signature) -> bool:
        """Whether one more case of a signature is to be looked at."""
        return len(self._of_cases.get(signature, ())) < MOST_CASES

    def add(self, signature: Signature, names: Collection[str]) -> None:
        """Record the deviations that reproduce one case."""
        self._of_cases.setdefault(signature, []).append(frozenset(names))

    def narrowed(self, signature: Signature, names: Collection[str]) -> tuple[tuple[str, ...], int]:
        """Those of `names`, which reproduce a case, that reproduce all cases of any signature as well, or else all of
        its own, and how many cases those are; `names` and 0 if no deviation reproduces them all."""
        everything = [case for cases in self._of_cases.values() for case in cases]
        for seen in (everything, self._of_cases.get(signature, [])):
            common = frozenset.intersection(*seen) if seen else frozenset[str]()
            kept = tuple(name for name in names if name in common)
            if kept:
                return kept, len(seen)
        return tuple(names), 0

"""Counters say what a run of sequences really did; thresholds show when it found nothing only because it did nothing.

A threshold is a number of events for every 1,000 steps, far below that of a run of the default configurations: a lower
counter means that some check had nothing to look at.
"""

from __future__ import annotations

from collections.abc import Mapping

THRESHOLDS = {
    "cache entries checked": 500.0,
    "admissions with a hit": 5.0,
    "preemptions": 1.0,
    "rows with drafts accepted": 20.0,
    "reads at an offset": 10.0,
    "moves with a bias": 5.0,
    "precopy moves": 20.0,
    "postprocess moves": 10.0,
}
"""Minimum number of events per 1,000 steps."""

ENOUGH_STEPS = 3000
"""Below this number of steps rare events may be absent by chance, so thresholds do not apply."""

_SPECULATIVE = ("rows with drafts accepted", "reads at an offset", "moves with a bias", "postprocess moves")


def below_threshold(counters: Mapping[str, int], steps: int, speculates: bool) -> list[str]:
    """One line for each counter that is too low. `speculates`: whether the run had drafts at all."""
    if steps < ENOUGH_STEPS:
        return []
    missing = []
    for name, rate in THRESHOLDS.items():
        if name in _SPECULATIVE and not speculates:
            continue
        least = int(rate * steps / 1000)
        if counters.get(name, 0) < least:
            missing.append(f"{name}: {counters.get(name, 0)} in {steps} steps, expected at least {least}")
    return missing

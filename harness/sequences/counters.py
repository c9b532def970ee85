"""Counters say what a run of sequences really did; thresholds show when it found nothing only because it did nothing.

A threshold is a number of events for every 1,000 steps, far below that of a run of the default configurations: a lower
counter means that some check had nothing to look at.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.case.sequence import SequenceConfig

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

HITS = {
    "whole hits, all states kept": ("steps, all states kept", 30.0),
    "whole hits, some states kept": ("steps, some states kept", 30.0),
    "whole hits, boundary states kept": ("steps, boundary states kept", 30.0),
    "partial hits": ("steps, partial hits possible", 0.5),
}
"""The sources of hits: the steps in which each is possible, and the minimum number of hits per 1,000 of them. A fault
that ends one source leaves the sum of all sources high."""

ENOUGH_STEPS = 3000
"""Below this number of steps rare events may be absent by chance, so thresholds do not apply."""

_SPECULATIVE = ("rows with drafts accepted", "reads at an offset", "moves with a bias", "postprocess moves")


def kept_states(config: SequenceConfig) -> str:
    """Which states the prefix cache of a configuration keeps: sources of hits, with a threshold each."""
    if config.retention is None:
        return "all states kept"
    return "boundary states kept" if config.retention == 0 else "some states kept"


def below_threshold(counters: Mapping[str, int], steps: int, speculates: bool) -> list[str]:
    """One line for each counter that is too low. `speculates`: whether the run had drafts at all."""
    wanted = {name: ("", steps, rate) for name, rate in THRESHOLDS.items() if speculates or name not in _SPECULATIVE}
    wanted |= {name: (kind.removeprefix("steps"), counters.get(kind, 0), rate) for name, (kind, rate) in HITS.items()}
    missing = []
    for name, (kind, ran, rate) in wanted.items():
        least, found = int(rate * ran / 1000), counters.get(name, 0)
        if ran >= ENOUGH_STEPS and found < least:
            missing.append(f"{name}: {found} in {ran} steps{kind}, expected at least {least}")
    return missing

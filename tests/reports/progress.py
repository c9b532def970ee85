"""Statistics of campaigns that no test has to run."""

from __future__ import annotations

from typing import Any

from harness.campaign.stats import FoundSoFar, Stats


def found(number: int) -> FoundSoFar:
    return FoundSoFar(f"precopy/memory/wrong-bytes/object-{number}/-", None, number, 1, None)


def stats(**changes: Any) -> Stats:
    """Those of a campaign with a budget of a minute, half of which is over."""
    given: dict[str, Any] = {
        "subject": "case",
        "noun": "case",
        "target": "builtin",
        "seed": 5,
        "shard": None,
        "phase": "judging",
        "workers": 2,
        "started": "2026-12-01T02:00:00+00:00",
        "updated": "2026-12-01T02:00:31+00:00",
        "seconds": 31.4,
        "limit_cases": None,
        "limit_seconds": 60.0,
        "judged": 3012,
        "in_this_part": 3012,
        "per_second": 95.92,
        "skipped": 12,
        "violations": 5,
        "regimes_reached": 180,
        "regimes": 301,
        "findings": [found(1), found(2)],
        "harness_failures": 0,
        "workers_lost": 0,
        "ended_early": None,
        "exit_status": None,
    }
    return Stats(**{**given, **changes})

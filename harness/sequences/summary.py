"""A summary is what a sequence campaign comes to."""

from __future__ import annotations

import msgspec

from harness import __version__


class SequenceFinding(msgspec.Struct):
    """What was found; the sequence with the lowest index stands for all that look alike. `repro` is None for what
    could not be saved: such a finding is as it was drawn."""

    signature: str
    issue: str | None
    summary: str
    first_sequence: int
    sequences: int
    events: int
    repro: str | None


class SequenceSummary(msgspec.Struct):
    """What a campaign comes to; the object that `harness run --ops sequences --json` prints (docs/json.md)."""

    target: str
    seed: int
    sequences: int
    steps: int
    steps_per_second: float
    seconds: float
    skipped: dict[str, int]
    counters: dict[str, int]
    fixes: list[str]
    findings: list[SequenceFinding]
    missing: list[str]
    harness_failures: int
    exit_status: int
    harness_version: str = __version__

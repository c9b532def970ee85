"""A repro is the file that carries a finding: the decoded case, what was wrong, and where it was seen.

It never relies on a seed: the seed and index are kept as history, the case itself is what replays, whatever becomes of
the generators. It is untrusted input: pure data, decoded against a schema with bounds.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from harness.case import Case
from harness.check.outcome import Evidence, Signature

REPRO_VERSION: Literal[1] = 1

Text = Annotated[str, Meta(max_length=4096)]


class Origin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the finding comes from. `seed` and `index` are None for a case that no engine drew.

    With the random engine they and the generator version give the case as it was drawn.
    """

    target: Text
    executor: Text
    harness_version: Text
    generator_version: int
    engine: Text = "random"
    seed: int | None = None
    index: int | None = None


class ShrinkRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What shrinking took; `complete` is False if a budget ended it."""

    executions: int
    seconds: float
    complete: bool


class Repro(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One finding. `shrink` is None for a case as it was drawn."""

    harness_repro: Literal[1] = REPRO_VERSION
    signature: Signature
    evidence: Evidence
    origin: Origin
    shrink: ShrinkRecord | None = None
    case: Case

"""An outcome is what checking one case gave: a verdict for each operation, and evidence where one failed.

Plain data without torch, so that it travels between processes and into files.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Status = Literal["pass", "fail", "skip"]
SkipReason = Literal["lacks-operation", "outside-contract", "executor-cannot", "relation-undefined"]
"""`relation-undefined` belongs to relations: the relation says nothing about this case."""

INSTRUMENTED_ORACLES = ("race", "undefined")
"""Oracles of what kernels did, whatever the bytes are."""

RELATION = "relation:"
"""What the oracle of a signature starts with if a relation between runs was violated; its name follows."""

WITHIN = " within "
"""In the journal of a worker, stands between an operation and the relation that it was run for."""


class Signature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What makes two failures the same finding: no ids, counts or releases.

    `violation` is `wrong-bytes` (bytes that had to be written hold something else), `stray-write` (bytes that nobody
    asked to change changed), `wrong-count` (an accepted count), an access fault's kind, or an exception's type; for a
    relation also `differs` and `result-differs` (results that do not correspond);
    `object` the kind of object it happened to; `conv_layout` SD or DS where that object is a conv state, else `-`.
    """

    operation: str
    oracle: str
    violation: str
    object: str
    conv_layout: str

    @property
    def relation(self) -> str | None:
        """The relation that has to be asked for this finding to show, if it was one that saw it."""
        return self.oracle.removeprefix(RELATION) if self.oracle.startswith(RELATION) else None

    @property
    def instrumented(self) -> bool:
        """Whether it took an instrumented executor to see it: then that comes before the bytes, else the bytes alone
        count, so that the finding shows as what it was."""
        return self.oracle in INSTRUMENTED_ORACLES

    def __str__(self) -> str:
        return f"{self.operation}/{self.oracle}/{self.violation}/{self.object}/{self.conv_layout}"


class Difference(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A run of bytes that differ: where, and the first of them before, as expected, and as found (hex)."""

    violation: str
    object: str
    place: str
    offset: int
    size: int
    before: str
    expected: str
    found: str


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why an operation failed: one sentence, the first differences, and how many there are in all."""

    summary: str
    differences: tuple[Difference, ...] = ()
    total_bytes: int = 0
    details: tuple[str, ...] = ()


class Verdict(msgspec.Struct, frozen=True):
    """The judgement of one operation. `reason` and `detail` belong to a skip, `signature` and `evidence` to a failure.

    A pass with a `detail` is a refusal: in the total domain production code may decline an input, in its own words
    and before it changes any device memory. It says nothing about bytes and never counts as judged.

    `relation` is the name of the relation that the verdict is about; empty where one run was judged by itself.
    """

    operation: str
    status: Status
    reason: SkipReason | None = None
    detail: str = ""
    signature: Signature | None = None
    evidence: Evidence | None = None
    launches: int = 0
    moves: int = 0
    relation: str = ""

    @property
    def refused(self) -> bool:
        """Whether this pass is a refusal."""
        return self.status == "pass" and bool(self.detail)


class Seconds(msgspec.Struct):
    """Where the time of a check went."""

    build: float = 0.0
    run: float = 0.0
    oracle: float = 0.0
    compare: float = 0.0
    relations: float = 0.0


class Outcome(msgspec.Struct, frozen=True):
    """Verdicts in program order, up to and including the first that is not a pass.

    `relations` are the verdicts of the relations that were asked, which happens only where everything else passed.
    """

    verdicts: tuple[Verdict, ...]
    seconds: Seconds
    relations: tuple[Verdict, ...] = ()

    @property
    def failure(self) -> Verdict | None:
        everything = (*self.verdicts, *self.relations)
        return next((verdict for verdict in everything if verdict.status == "fail"), None)

    @property
    def signature(self) -> Signature | None:
        failure = self.failure
        return failure.signature if failure else None

"""An outcome is the result of checking one case: a verdict for each operation, and evidence where one failed.

It is plain data without torch, so that it can be sent between processes and written to files.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Status = Literal["pass", "fail", "skip"]
SkipReason = Literal["lacks-operation", "outside-contract", "executor-cannot", "relation-undefined"]
"""`relation-undefined` belongs to relations: the relation does not apply to this case."""

INSTRUMENTED_ORACLES = ("race", "undefined")
"""Oracles of what kernels did, independent of the bytes."""

RELATION = "relation:"
"""The start of the oracle in a signature if a relation between runs was violated; the relation's name follows."""

WITHIN = " within "
"""In the stage of a worker, the text between an operation and the relation that it was run for."""


class Signature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What makes two failures the same finding: no ids, counts or releases.

    `violation` is `wrong-bytes` (bytes that had to be written hold something else), `stray-write` (bytes changed that
    must not), `wrong-count` (an accepted count), an access fault's kind, or an exception's type; for a relation also
    `differs` and `result-differs` (results that do not correspond);
    `object` the kind of object it happened to; `conv_layout` SD or DS where that object is a conv state, else `-`.
    """

    operation: str
    oracle: str
    violation: str
    object: str
    conv_layout: str

    @property
    def relation(self) -> str | None:
        """The relation that found this, if one did: it has to be checked for the finding to show."""
        return self.oracle.removeprefix(RELATION) if self.oracle.startswith(RELATION) else None

    @property
    def instrumented(self) -> bool:
        """Whether it takes an instrumented executor to see this. If so, instrumentation comes before the bytes; if not,
        only the bytes count. That way the finding shows as what it was."""
        return self.oracle in INSTRUMENTED_ORACLES

    def __str__(self) -> str:
        return f"{self.operation}/{self.oracle}/{self.violation}/{self.object}/{self.conv_layout}"


class CodePlace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line of the code under test that a finding leads to, its file named as that code has it
    (`vllm/v1/worker/mamba_utils.py`). `role` is what it did: `access`, `store`, `load`, `call` (inside a kernel),
    `launch` (the host's call of the kernel), `assign` (the last assignment of a wrong number), or `raise`."""

    file: str
    line: int
    function: str
    role: str


class Diagnosis(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which single deviations from the specification reproduce what was found, by name (`harness.oracles.diagnosis`);
    none if nothing known does. `sentence` says it in words. `cases` is how many failing
    cases they reproduce, of those that were looked at. Deviations of one of the `families` are one cause."""

    deviations: tuple[str, ...]
    sentence: str
    cases: int = 0
    families: tuple[str, ...] = ()


class Difference(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A run of bytes that differ: the place, and the first of them as before, as expected, and as found (hex).

    Single bytes of it may be equal by chance. `writer` says which store of a launch wrote the first of them last, or
    that none did, and `contents` where bytes like those that were found lie; both are empty if that is not known.
    """

    violation: str
    object: str
    place: str
    offset: int
    size: int
    before: str
    expected: str
    found: str
    writer: str = ""
    contents: str = ""


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why an operation failed: one sentence, the first differences, and the total number of bytes that differ.

    `places` are lines of the code under test, from the innermost one of the kernel to the host's. `diagnosis` is None
    where none was asked for, or where there can be none.
    """

    summary: str
    differences: tuple[Difference, ...] = ()
    total_bytes: int = 0
    details: tuple[str, ...] = ()
    places: tuple[CodePlace, ...] = ()
    diagnosis: Diagnosis | None = None


def with_recorded_diagnosis(now: Evidence, recorded: Evidence) -> Evidence:
    """What is seen now of a finding, with the recorded diagnosis if that is one of those now: many cases have narrowed
    it."""
    if recorded.diagnosis is None or now.diagnosis is None:
        return now
    if not set(recorded.diagnosis.deviations) <= set(now.diagnosis.deviations):
        return now
    return msgspec.structs.replace(now, diagnosis=recorded.diagnosis)


class Verdict(msgspec.Struct, frozen=True):
    """The judgement of one operation. `reason` and `detail` belong to a skip, `signature` and `evidence` to a failure.

    A pass with a `detail` is a refusal: in the total domain production code may reject an input, with its own error
    and before it changes any device memory. It says nothing about bytes and never counts as judged.

    `relation` is the name of the relation that the verdict is about; empty where a single run was judged.
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

    @property
    def judged(self) -> bool:
        """Whether it says anything about what the target did."""
        return self.status != "skip" and not self.refused

    @property
    def why_not(self) -> str:
        """Why it was not judged, in words."""
        return f"{self.reason or 'refused'}: {self.detail}"


class Seconds(msgspec.Struct):
    """How the time of a check was spent."""

    build: float = 0.0
    run: float = 0.0
    oracle: float = 0.0
    compare: float = 0.0
    relations: float = 0.0


class Outcome(msgspec.Struct, frozen=True):
    """Verdicts in program order, up to and including the first that is not a pass.

    `relations` are the verdicts of the relations that were checked, which happens only where everything else passed.
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

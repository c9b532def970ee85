"""A repro is the file that carries a finding: the decoded case, what was wrong, and where it was seen.

It never relies on a seed: the seed and index are only kept as history, and the case itself is replayed, so that changes
of the generators do not matter. It is untrusted input: pure data, decoded against a schema with bounds. There is a
format for each kind of subject; its `kind` says which, and a file without one holds a kernel case."""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal, Protocol

import msgspec
from msgspec import Meta

from harness.case import Case, encode_case
from harness.case.sequence import SequenceCase, encode_sequence
from harness.check.outcome import Evidence, Signature

REPRO_VERSION: Literal[1] = 1

Text = Annotated[str, Meta(max_length=4096)]


class Origin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the finding comes from. `seed` and `index` are None for a case that was not drawn by an engine.

    With the random engine they determine, with the generator version, the case as it was drawn.
    """

    target: Text
    executor: Text
    harness_version: Text
    generator_version: int
    engine: Text = "random"
    seed: int | None = None
    index: int | None = None


class ShrinkRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cost of shrinking; `complete` is False if a budget ended it."""

    executions: int
    seconds: float
    complete: bool


class AnyRepro(Protocol):
    """The part that all kinds of repros share; each is a msgspec Struct."""

    @property
    def signature(self) -> Signature: ...
    @property
    def evidence(self) -> Evidence: ...
    @property
    def origin(self) -> Origin: ...
    @property
    def shrink(self) -> ShrinkRecord | None: ...
    @property
    def domain(self) -> str:
        """`reachable` or `total`: see harness.case."""

    @property
    def issue(self) -> str | None:
        """The known issue that the finding turned out to be."""

    @property
    def file_name(self) -> str:
        """A file name that says what was found; the digits distinguish findings with the same signature."""


class Repro(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A finding of a kernel case. `shrink` is None for a case as it was drawn."""

    harness_repro: Literal[1] = REPRO_VERSION
    signature: Signature
    evidence: Evidence
    origin: Origin
    shrink: ShrinkRecord | None = None
    case: Case

    @property
    def domain(self) -> str:
        return self.case.domain

    @property
    def issue(self) -> str | None:
        return None

    @property
    def file_name(self) -> str:
        signature = self.signature
        parts = [signature.operation, signature.relation or "", signature.violation, signature.object]
        if signature.conv_layout != "-":
            parts.append(signature.conv_layout)
        return _file_name(parts, encode_case(self.case))


class SequenceRepro(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A finding of a step sequence: its events, and what they showed. `fixes` are those that were on, `issue`
    the known issue that it turned out to be. `kernels` is the target whose kernels ran on bytes, None if the device was
    only symbolic. `settings` are those that differ from the defaults of the release in which it was found; None: not
    known."""

    harness_repro: Literal[1] = REPRO_VERSION
    kind: Literal["sequence"] = "sequence"
    signature: Signature
    evidence: Evidence
    origin: Origin
    fixes: Annotated[tuple[str, ...], Meta(max_length=32)] = ()
    faults: Annotated[tuple[str, ...], Meta(max_length=8)] = ()
    issue: Text | None = None
    kernels: str | None = None
    settings: Annotated[tuple[Text, ...], Meta(max_length=16)] | None = None
    shrink: ShrinkRecord | None = None
    sequence: SequenceCase

    @property
    def domain(self) -> str:
        return "reachable"

    @property
    def file_name(self) -> str:
        runner = self.sequence.config.runner
        parts = ["sequence", self.issue or self.signature.violation, self.signature.object, runner]
        return _file_name(parts, encode_sequence(self.sequence))


class EngineRepro(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A finding of a whole engine: the events that drove it, and what it said. `fixes` were on, `faults` were planted
    in its fused kernels; `issue` is the known issue that it turned out to be. `settings` are those that differ from the
    defaults of the release in which it was found; None: not known."""

    harness_repro: Literal[1] = REPRO_VERSION
    kind: Literal["engine"] = "engine"
    signature: Signature
    evidence: Evidence
    origin: Origin
    fixes: Annotated[tuple[str, ...], Meta(max_length=32)] = ()
    faults: Annotated[tuple[str, ...], Meta(max_length=8)] = ()
    issue: Text | None = None
    settings: Annotated[tuple[Text, ...], Meta(max_length=16)] | None = None
    shrink: ShrinkRecord | None = None
    sequence: SequenceCase

    @property
    def domain(self) -> str:
        return "reachable"

    @property
    def file_name(self) -> str:
        parts = ["engine", self.issue or self.signature.violation, self.signature.object]
        return _file_name(parts, encode_sequence(self.sequence))


def _file_name(parts: list[str], case: bytes) -> str:
    name = "-".join(filter(None, parts)).lower()
    digest = hashlib.sha256(case).hexdigest()[:8]
    return "".join(c if c.isalnum() or c == "-" else "_" for c in name) + f"-{digest}.json"


DIGITS = "[0-9a-f]" * 8
"""The end of `file_name`, as in patterns of file names."""

REPRO_TYPES: dict[str, type[AnyRepro]] = {"case": Repro, "sequence": SequenceRepro, "engine": EngineRepro}
"""Formats by kind. harness.subject.registry.register adds those of other packages' subjects."""

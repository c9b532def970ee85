"""A sequence repro is the file that carries a finding of a step sequence: its events, and what they showed."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from harness.case import InvalidCase
from harness.case.sequence import SequenceCase, encode_sequence
from harness.check.outcome import Evidence, Signature
from harness.repro.format import REPRO_VERSION, Origin, ShrinkRecord, Text
from harness.repro.store import MAX_BYTES, text_of


class SequenceRepro(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One finding. `fixes` are the switches that were on, `issue` the known issue that it turned out to be. `kernels`
    is the target whose kernels ran on bytes, None if the device was symbolic alone."""

    harness_repro: Literal[1] = REPRO_VERSION
    kind: Literal["sequence"] = "sequence"
    signature: Signature
    evidence: Evidence
    origin: Origin
    fixes: Annotated[tuple[str, ...], Meta(max_length=32)] = ()
    faults: Annotated[tuple[str, ...], Meta(max_length=8)] = ()
    issue: Text | None = None
    kernels: str | None = None
    shrink: ShrinkRecord | None = None
    sequence: SequenceCase


def sequence_repro_name(repro: SequenceRepro) -> str:
    """A file name that says what was found; the digits tell findings of one signature apart."""
    parts = ["sequence", repro.issue or repro.signature.violation, repro.signature.object, repro.sequence.config.runner]
    digest = hashlib.sha256(encode_sequence(repro.sequence)).hexdigest()[:8]
    name = "-".join(parts).lower()
    return "".join(c if c.isalnum() or c == "-" else "_" for c in name) + f"-{digest}.json"


def read_sequence_repro(path: Path) -> SequenceRepro | None:
    """Read a repro file that carries a sequence; None if it carries something else, right or wrong.

    Raises InvalidCase, with one line, for a sequence that is not valid.
    """
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return None
        text = text_of(path)
        if msgspec.json.decode(text, type=_Kind).kind != "sequence":
            return None
    except (OSError, msgspec.DecodeError, RecursionError, ValueError):
        return None
    try:
        return msgspec.json.decode(text, type=SequenceRepro)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise InvalidCase(f"{path}: not a valid repro file: {error}") from error


class _Kind(msgspec.Struct):
    kind: str = "case"

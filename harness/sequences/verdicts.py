"""Verdicts of sequences, in the words that every verdict of the harness has: signature and evidence."""

from __future__ import annotations

from harness.check.outcome import Evidence, Signature
from harness.oracles.meaning.violation import Violation


def signature_of(violation: Violation) -> Signature:
    """What makes two violations the same finding. Conv and temporal states of one fault are one finding."""
    state = "mamba" if violation.state in ("temporal", "conv") else violation.state
    return Signature("sequence", "meaning", violation.kind, state, "-")


def evidence_of(violation: Violation, trace: str = "") -> Evidence:
    """The violation as evidence: request, step, column, block, last writer, what is held and what should be."""
    details = [
        f"request: {violation.request}",
        f"step: {violation.step}",
        f"group: {violation.group}, column: {violation.column}, block: {violation.block}",
        f"last writer: {violation.writer}" if violation.writer.step else "last writer: nobody",
        f"holds: {violation.holds}",
        f"should hold: {violation.should}",
    ]
    return Evidence(violation.summary, (), 0, (*details, *trace.splitlines()))

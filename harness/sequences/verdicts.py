"""Verdicts of sequences in the form of all verdicts of the harness: signature and evidence."""

from __future__ import annotations

from harness.check.outcome import Evidence, Signature
from harness.kernels.targets.vllm.scheduling.runner_pair import HostDifference
from harness.oracles.states.device import NO_WRITER
from harness.oracles.states.violation import HOST_CODE_DIFFERS, Violation
from harness.sequences.result import NOT_RUN, RunResult


def violation_of(found: HostDifference) -> Violation:
    """A difference between host code and our model of it, as a violation."""
    step, request, what, term, host, model = found
    return Violation(HOST_CODE_DIFFERS, what, step, request, -1, -1, -1, NO_WRITER, host, model, term)


def signature_of(violation: Violation) -> Signature:
    """The signature, which is equal for violations that are the same finding. Conv and temporal states of one fault are
    one finding."""
    state = "mamba" if violation.state in ("temporal", "conv") else violation.state
    return Signature("sequence", "meaning", violation.kind, state, "-")


def not_judged(signature: Signature, result: RunResult) -> str | None:
    """Why a result without a violation says nothing about `signature`; None if it does."""
    if result.skipped is None and signature.violation == HOST_CODE_DIFFERS and result.host_code_lacks is not None:
        return f"{NOT_RUN}: {result.host_code_lacks}"
    return result.skipped


def evidence_of(violation: Violation, trace: str = "") -> Evidence:
    """The violation as evidence: request, step, column, block, last writer, what is held and what should be held."""
    held, wanted = "holds" if violation.should else "found", "should hold"
    if violation.kind == HOST_CODE_DIFFERS:
        held, wanted = "the release's host code says", "our model of it says"
    writer = str(violation.writer) if violation.writer.step else "nobody"
    fields = {
        "request": violation.request,
        "step": str(violation.step),
        "where": violation.place,
        "last writer": writer if violation.block >= 0 else "",
        held: violation.holds,
        wanted: violation.should,
    }
    details = (f"{name}: {value}" for name, value in fields.items() if value)
    return Evidence(violation.summary, (), 0, (*details, *trace.splitlines()))

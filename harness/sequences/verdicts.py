"""Verdicts of sequences in the form of all verdicts of the harness: signature and evidence."""

from __future__ import annotations

import msgspec

from harness.case import Execution
from harness.check.looked_at import not_looked_at
from harness.check.outcome import Evidence, Signature
from harness.kernels.targets.vllm.scheduling.runner_pair import HostDifference
from harness.oracles.states.device import NO_WRITER
from harness.oracles.states.violation import ACCESS_KINDS, BYTE_KINDS, EXCEPTION, HOST_CODE_DIFFERS, LOST, Violation
from harness.sequences.result import LAUNCHES, NOT_RUN, ROWS, RunResult

_OF_HOST_CODE = (HOST_CODE_DIFFERS, EXCEPTION, LOST)
"""Starts of kinds that host code alone may show."""


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
    if result.skipped is not None:
        return result.skipped
    if result.host_code_lacks is not None and signature.violation.startswith(_OF_HOST_CODE):
        return f"{NOT_RUN}: {result.host_code_lacks}"
    return None if result.counters.get(ROWS) else "no row ran"


def bytes_not_judged(signature: Signature, result: RunResult, found_on: str, executor: str | None) -> str | None:
    """The same for what only kernels on bytes show, found on the executor `found_on`; `executor` is that of this run,
    None if none ran."""
    if signature.violation not in BYTE_KINDS:
        return None
    if executor is None:
        return "only --bytes shows it, and the file names no kernels"
    if not result.counters.get(LAUNCHES):
        return "no kernel was launched"
    oracle = "access" if signature.violation in ACCESS_KINDS else "memory"
    run = Execution(
        checks=("memory",)
    )  # kernels of sequences run one program after the other, and no race is looked for
    return not_looked_at(msgspec.structs.replace(signature, oracle=oracle), found_on, run, executor)


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

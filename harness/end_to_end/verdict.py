"""A verdict of a sequence on an engine: what went wrong first, as a violation.

Three things are wrong: a token that is not the plain run's (ties do not count), an access of a fused kernel that was
refused, and an exception of the release. The earliest step counts; an exception ends the run, and so comes last.
"""

from __future__ import annotations

import re

from harness.check.outcome import Evidence, Signature
from harness.end_to_end.confirming import WrongToken, differences
from harness.end_to_end.messages import SequenceAnswer
from harness.oracles.states.device import NO_WRITER
from harness.oracles.states.violation import EXCEPTION, LOST, WRONG_TOKEN, Violation
from harness.sequences.result import LAUNCHES, RunResult

TIES = "ties"
"""The counter of requests that differ from the plain run first where two tokens are as good."""


def result_of(answer: SequenceAnswer) -> RunResult:
    """What a campaign knows of a sequence: its violation, if anything is wrong, and what it met."""
    if answer.refused is not None:
        return RunResult(None, f"the release refuses: {without_numbers(answer.refused)}", -1, 0, answer.seconds, {})
    wrong, ties = differences(answer)
    counters = {**answer.counters, LAUNCHES: answer.kernel_launches, TIES: ties}
    counters = {name: count for name, count in counters.items() if count}
    violation, trace = _violation(answer, wrong)
    return RunResult(violation, None, -1, answer.steps, answer.seconds, counters, trace)


def _violation(answer: SequenceAnswer, wrong: list[WrongToken]) -> tuple[Violation | None, str]:
    said = sorted((_step(answer, one), one.request) for one in wrong)
    token_step = said[0][0] if said else None
    trace = [f"{one.text}, said in step {_step(answer, one)}" for one in wrong]
    trace += [f"a fused kernel: {fault}" for fault in answer.kernel_faults]
    trace += [answer.raised] if answer.raised else []
    if answer.kernel_faults and (token_step is None or answer.fault_step <= token_step):
        kind, _, where = answer.kernel_faults[0].partition(": ")
        return _of_engine(kind, _kernel_in(where), answer.fault_step, where), "\n".join(trace)
    if said:
        step, request = said[0]
        first = next(one for one in wrong if one.request == request)
        violation = Violation(
            WRONG_TOKEN,
            "tokens",
            step,
            f"request {request}",
            -1,
            -1,
            -1,
            NO_WRITER,
            f"token {first.said}",
            f"token {first.due}",
            f"output {first.output}, position {first.position}",
        )
        return violation, "\n".join(trace)
    if answer.raised is not None:
        kind = f"{EXCEPTION}{answer.raised_type}"
        return _of_engine(kind, answer.raised_in, answer.steps, answer.raised), "\n".join(trace)
    return None, ""


def _of_engine(kind: str, state: str, step: int, holds: str) -> Violation:
    return Violation(kind, state, step, "the engine", -1, -1, -1, NO_WRITER, holds[:400], "")


def _step(answer: SequenceAnswer, wrong: WrongToken) -> int:
    """The step in which a wrong token was said."""
    tokens = next(one for one in answer.requests if one.request == wrong.request)
    return tokens.steps[wrong.output]


def _kernel_in(where: str) -> str:
    """The name of the kernel in the text of a refused access."""
    found = re.search(r"\b(\w*kernel\w*)\b", where)
    return found[1] if found else "fused kernel"


def without_numbers(text: str) -> str:
    """A message without sizes, so that equal reasons count as one."""
    return re.sub(r"\d+(\.\d+)*(, \d+)*", "N", text)[:200]


def signature_of(violation: Violation) -> Signature:
    """The signature, which is equal for violations that are the same finding."""
    oracle = "tokens"
    if violation.kind.startswith(EXCEPTION):
        oracle = "exception"
    elif violation.kind.startswith(LOST):
        oracle = "process"
    elif violation.kind != WRONG_TOKEN:
        oracle = "access"
    return Signature("engine", oracle, violation.kind, violation.state, "-")


def evidence_of(violation: Violation, trace: str) -> Evidence:
    """The violation as evidence: what was wrong first, then all that was."""
    return Evidence(violation.summary, (), 0, tuple(trace.splitlines()))

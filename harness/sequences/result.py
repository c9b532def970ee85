"""A result is what running a sequence gave: plain data, so that it can be sent between processes."""

from __future__ import annotations

import msgspec

from harness.oracles.states.violation import Violation
from harness.subject.edits import EditedLines

ROWS, LAUNCHES = "rows", "kernel launches"
"""Counters of what ran: rows of forward passes, and kernels on bytes."""

NOT_RUN = "host code not run"


def not_run(runner: str, reason: str) -> str:
    """The counter of sequences in which the release's host code could not run next to our model of it."""
    return f"{runner} {NOT_RUN}: {reason}"


class RunResult(msgspec.Struct):
    """`skipped` says what the release lacks; `event` is the index of the event that a violation ended the run in;
    `seconds` is processor time, including building the engine. `host_code_lacks` is why the release's host code could
    not run next to our model of it, if that was requested. `settings` are those that differ from production's defaults,
    of a case with a violation; None: not known. `edits` are the edited lines of a checkout that a case with a violation
    ran."""

    violation: Violation | None
    skipped: str | None
    event: int
    steps: int
    seconds: float
    counters: dict[str, int]
    trace: str = ""
    host_code_lacks: str | None = None
    settings: list[str] | None = None
    edits: tuple[EditedLines, ...] = ()


class Results:
    """Encodes and decodes results."""

    def __init__(self) -> None:
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(RunResult)

    def encode(self, result: RunResult) -> bytes:
        return self._encoder.encode(result)

    def decode(self, text: bytes) -> RunResult:
        return self._decoder.decode(text)


RESULTS = Results()

"""A violation says which guarantee of docs/domain.md, section 8, a step broke, and with what."""

from __future__ import annotations

from typing import NamedTuple

from harness.oracles.states.device import Writer


class Violation(NamedTuple):
    """`kind` and `state` make the signature; the rest is evidence. Columns and blocks are -1 where there is none.

    `holds` is what the state holds, and `should` what it should hold; without `should`, `holds` is any other evidence.

    Where host code and our model of it differ, `holds` is the value of the host code, `should` that of the model, and
    `term` is vLLM's name of that value, with its row.
    """

    kind: str
    state: str
    step: int
    request: str
    group: int
    column: int
    block: int
    writer: Writer
    holds: str
    should: str
    term: str = ""

    @property
    def place(self) -> str:
        """Where the state is; empty if it has no place."""
        if self.term:
            return self.term
        parts = [(self.column, f"column {self.column}"), (self.group, f"group {self.group}")]
        of = " of ".join(name for number, name in parts if number >= 0)
        if self.block < 0:
            return of
        return f"block {self.block}, {of}" if of else f"block {self.block}"

    @property
    def summary(self) -> str:
        start = f"step {self.step}, {self.request}"
        if self.kind.startswith(EXCEPTION):
            return f"{start}: {self.kind.removeprefix(EXCEPTION)} in {self.state}: {self.holds}"
        if self.kind == WRONG_TOKEN:
            return f"{start}, {self.term}: the engine says {self.holds}, the same model run plainly {self.should}"
        if self.kind == HOST_CODE_DIFFERS:
            differ = f"the release's host code says {self.holds}, our model of it says {self.should}"
            return f"{start}: {self.place} ({self.state}): {differ}"
        text = f"{start}: {_as_text(self.kind)} ({self.state})"
        if self.place:
            text += f" at {self.place}"
        if self.holds and not self.should:
            text += f": {self.holds}"
        elif self.should:
            text += f": it holds {self.holds}, and should hold {self.should}"
        if self.writer.step:
            text += f"; last written by {self.writer}"
        return text


EXCEPTION = "exception-"
"""How the kind of an exception begins; `state` is the function that raised it, `holds` its message."""

LOST = "process-"
"""How the kind begins where the process that ran the sequence was lost."""

ACCESS_KINDS = ("out-of-bounds", "misaligned", "read-only")
BYTE_KINDS = ("bytes-differ", "count-differs", *ACCESS_KINDS)
"""Kinds that only kernels on bytes show; the former need an executor that checks accesses."""

NO_PROGRESS = "no-progress"
"""The kind that is about an engine which stands still; `state` is what is missing: rows, or tokens that are new."""

HOST_CODE_DIFFERS = "host-code-differs"
"""The kind that is not about states: a release's host code and our model of it disagree."""

WRONG_TOKEN = "wrong-token"
"""The kind that a whole engine shows: `holds` is the token that it says, `should` the one that the plain run says, and
`term` which output of the request."""

KINDS = {
    "wrong-state-read": "the state that the request starts from is not that of its computed tokens",
    "poisoned-cache-entry": "a block registered in the prefix cache does not hold what its hash says",
    "column-outside-row": "a kernel is sent to a column that the block-table row does not have",
    "null-block-written": "the null block is written",
    "block-written-twice": "two columns that one step writes are the same block",
    "read-while-written": "a block is read that another row of the same launch writes",
    "running-block-cached": "a kernel writes a block that the prefix cache shares",
    "bytes-differ": "memory is not what the states that were moved amount to",
    "count-differs": "the kernels left other counts or columns than they should have",
    "out-of-bounds": "a kernel left the memory that it was given",
    "misaligned": "a kernel made an access that is not aligned",
    "read-only": "a kernel wrote what it may only read",
    "negative-schedule": "the scheduler gives the request a negative number of tokens",
    NO_PROGRESS: "requests wait, and no step gets any of them further",
    HOST_CODE_DIFFERS: "the release's host code says something else than our model of it",
    "token-mismatch": "the scheduler has other tokens than the model said",
    WRONG_TOKEN: "a whole engine says another token than the same model run plainly",
    "process-hang": "the sequence did not end in time",
    "process-memory-limit": "the sequence took more memory than a worker may have",
}
"""Kinds of violations, and their texts. Exceptions of production code have separate kinds: `exception-NAME`; and so
have other ends of the process that runs them: `process-crash-SIGNAL`, `process-exit-STATUS`."""

_ENDS = {
    "process-crash-": "the process was ended by",
    "process-exit-": "the process ended itself with status",
}


def in_tokens(count: int) -> str:
    """`1 token`, `2 tokens`."""
    return f"{count} token{'s' * (count != 1)}"


def _as_text(kind: str) -> str:
    for start, words in _ENDS.items():
        if kind.startswith(start):
            return f"{words} {kind.removeprefix(start)}"
    return KINDS.get(kind, kind)


class ViolationFound(Exception):
    """Raised to end a sequence."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(violation.summary)
        self.violation = violation

"""Messages are what a worker process and its parent send each other: typed, encoded, one at a time.

The inner format of cases, recipes and results belongs to the subject: here they are bytes.
"""

from __future__ import annotations

from multiprocessing.connection import Connection

import msgspec


class JudgeCase(msgspec.Struct, frozen=True, tag="judge"):
    """Judge one case; `how` says how. `index` is its number in a campaign, or -1. Answered by `CaseResult`."""

    case: bytes
    how: bytes
    index: int = -1


class JudgeRange(msgspec.Struct, frozen=True, tag="range"):
    """Draw and judge cases `start .. stop - 1` of a recipe until the deadline (`time.monotonic`), or until the first
    failure if `fail_fast` and the cases depend on each other. Answered by one `CaseResult` each, then `RangeDone`."""

    recipe: bytes
    start: int
    stop: int
    deadline: float
    fail_fast: bool = False


class Ask(msgspec.Struct, frozen=True, tag="ask"):
    """A question of the subject. Answered by `WorkerAnswer`."""

    question: str
    content: bytes = b""


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """End the range after its current case. Not answered: `RangeDone` comes then, or came already."""


Request = JudgeCase | JudgeRange | Ask | Stop


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The worker has loaded what it needs."""


class At(msgspec.Struct, frozen=True, tag="at"):
    """What the worker does next: `stage` of case `index`. It names the culprit if the worker is lost."""

    index: int
    stage: str


class Drawn(msgspec.Struct, frozen=True, tag="drawn"):
    """A case that cannot be drawn again from a seed and a number: sent before it is judged."""

    case: bytes


class WorkerNotice(msgspec.Struct, frozen=True, tag="notice"):
    """A line for the user."""

    text: str


class CaseResult(msgspec.Struct, frozen=True, tag="result"):
    """The result of a case; `case` is there if it failed in a range. `drawn` is the seconds that drawing it took."""

    index: int
    result: bytes
    case: bytes | None = None
    drawn: float = 0.0


class RangeDone(msgspec.Struct, frozen=True, tag="done"):
    """A range ended; `following` is the index of the first case that was not judged."""

    following: int


class WorkerAnswer(msgspec.Struct, frozen=True, tag="answer"):
    """The answer to a question."""

    content: bytes


class Invalid(msgspec.Struct, frozen=True, tag="invalid"):
    """A case is outside its preconditions."""

    text: str


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """Something asked for is not available, in one line."""

    text: str


class DeviceLost(msgspec.Struct, frozen=True, tag="fault"):
    """The device is gone, and the worker ends."""

    text: str


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The harness itself failed; `index` is its current case, or -1."""

    traceback: str
    index: int


class Unsaved(msgspec.Struct, frozen=True, tag="unsaved"):
    """A file could not be written: `what` was in it, and the error's number, message and path."""

    what: str
    number: int
    message: str
    path: str


Reply = (
    Ready
    | At
    | Drawn
    | WorkerNotice
    | CaseResult
    | RangeDone
    | WorkerAnswer
    | Invalid
    | Refused
    | DeviceLost
    | Failed
    | Unsaved
)

_ENCODER = msgspec.msgpack.Encoder()
_REQUESTS = msgspec.msgpack.Decoder(Request)
_REPLIES = msgspec.msgpack.Decoder(Reply)


def send(connection: Connection, message: Request | Reply) -> None:
    """Raises BrokenPipeError or ConnectionResetError if the other side is gone."""
    connection.send_bytes(_ENCODER.encode(message))


def receive_request(connection: Connection) -> Request:
    """Raises EOFError or OSError if the other side is gone."""
    return _REQUESTS.decode(connection.recv_bytes())


def receive_reply(connection: Connection) -> Reply:
    """Raises EOFError or OSError if the other side is gone."""
    return _REPLIES.decode(connection.recv_bytes())

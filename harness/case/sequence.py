"""A sequence case is a configuration and a plain list of events that drive a real scheduler, step after step.

Where a kernel case holds the numbers of a launch, a sequence case holds what users of an engine do: add requests that
share prefixes, abort them, reset the cache, pause, let the engine step. Every number that reaches a kernel follows from
the scheduler under test. No event names a block, a column or a count, so that a sequence stays meaningful when any
event is deleted. Shrinking relies on that.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from harness.case.operations import Runner
from harness.case.problem import InvalidCase

SEQUENCE_VERSION: Literal[1] = 1

SpecMethod = Literal["none", "ngram", "draft_model", "mtp", "eagle", "dflash"]
Policy = Literal["fcfs", "priority"]
PauseMode = Literal["abort", "wait", "keep", "all", "new"]
Layers = Literal["mamba2", "gated-delta-net", "kda"]

RequestNumber = Annotated[int, Meta(ge=0, le=2**20)]
Small = Annotated[int, Meta(ge=0, le=255)]

CONTINUATION = -1
"""Family of a prompt segment that continues as the model itself would: what a conversation's next turn sends back."""


class SequenceConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The engine that a sequence drives.

    `layers` are those that have states. None: the file is older than that; its V1 batches run as Mamba2 runs them.
    `block_size` (tokens) is that of the Mamba groups and of the main attention group; `drafter_block_size` is that of
    a drafter's own attention group, None if there is none. `retention` is the interval of kept prefix states in
    tokens: 0 keeps only boundaries where a request may resume, None keeps all. `checkpoint_alignment` (tokens) turns
    on checkpoints that a layer exports inside a prefill, None turns them off. `match_unit` (tokens) allows prefix
    hits that end inside a block, None does not. `kernel` is the width of the convolution. `length_limit` is the most
    tokens a request may have, `budget` the most tokens of a step, `prefill_threshold` the most of one prefill chunk
    (0: no limit). `requests` is the most requests running at once.

    Raises InvalidCase if the parts contradict each other.
    """

    runner: Runner
    layers: Layers | None = None
    asynchronous: bool = False
    block_size: Annotated[int, Meta(ge=2, le=256)]
    mamba_groups: Annotated[int, Meta(ge=1, le=3)] = 1
    drafter_block_size: Annotated[int, Meta(ge=1, le=256)] | None = None
    spec_method: SpecMethod = "none"
    num_spec: Annotated[int, Meta(ge=0, le=15)] = 0
    retention: Annotated[int, Meta(ge=0, le=2**16)] | None = None
    checkpoint_alignment: Annotated[int, Meta(ge=1, le=256)] | None = None
    match_unit: Annotated[int, Meta(ge=1, le=256)] | None = None
    shared_prefix_checkpoint: bool = False
    policy: Policy = "fcfs"
    kernel: Annotated[int, Meta(ge=2, le=8)] = 4
    length_limit: Annotated[int, Meta(ge=4, le=4096)]
    budget: Annotated[int, Meta(ge=1, le=8192)]
    prefill_threshold: Annotated[int, Meta(ge=0, le=8192)] = 0
    requests: Annotated[int, Meta(ge=1, le=64)]
    num_blocks: Annotated[int, Meta(ge=4, le=4096)]
    vocabulary: Annotated[int, Meta(ge=2, le=64)] = 2

    def __post_init__(self) -> None:
        if self.block_size <= self.num_spec:
            raise InvalidCase("block_size must be larger than num_spec: no scheduler works otherwise")
        if (self.spec_method == "none") != (self.num_spec == 0):
            raise InvalidCase("num_spec belongs to a spec_method, and each method needs at least one token")
        if self.retention is not None and self.retention % self.block_size:
            raise InvalidCase("retention must be a multiple of block_size")
        for name in ("match_unit", "drafter_block_size", "checkpoint_alignment"):
            value = getattr(self, name)
            if value is not None and self.block_size % value:
                raise InvalidCase(f"{name} must divide block_size")
        if self.drafter_block_size is not None and self.spec_method in ("none", "ngram"):
            raise InvalidCase("only a drafter that is a model has its own cache")
        if self.budget < self.num_spec + 1:
            raise InvalidCase("budget must let one request decode with all its drafts")
        if self.num_blocks < self.blocks_for_one():
            raise InvalidCase(f"one request of {self.length_limit} tokens needs {self.blocks_for_one()} blocks")

    def blocks_for_one(self) -> int:
        """Blocks without which a request of `length_limit` tokens might never run to its end.

        Attention keeps all its blocks. A Mamba group keeps the hit, the last and the running block, the speculative
        ones, and one each for a checkpoint and for the private copy of a partial hit. The null block is extra.
        """
        full = -(-(self.length_limit + self.num_spec + 1) // self.block_size)
        draft = 0
        if self.drafter_block_size is not None:
            draft = -(-(self.length_limit + 2 * self.num_spec + 2) // self.drafter_block_size)
        return full + draft + self.mamba_groups * (self.num_spec + 5) + 2


class Segment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`length` tokens of a prompt, taken at the same positions from the endless text `family`, or its CONTINUATION."""

    family: Annotated[int, Meta(ge=CONTINUATION, le=2**20)]
    length: Annotated[int, Meta(ge=1, le=4096)]


class Add(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="add"):
    """A request arrives. Requests whose prompts start with segments of the same families share prefixes.

    `resumable` makes it a session of streaming input: where it ends it waits for more input, as `Input` says.
    """

    request: RequestNumber
    prompt: Annotated[tuple[Segment, ...], Meta(min_length=1, max_length=16)]
    outputs: Annotated[int, Meta(ge=1, le=4096)]
    priority: Small = 0
    resumable: bool = False


class Input(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="input"):
    """The next chunk of a resumable request's input: a prompt that continues the session, and how many tokens it asks
    for. Its segments are the first tokens of their texts, wherever they then stand. An empty prompt says that no more
    input comes.

    A chunk that arrives before the session's turn is over waits for it. Nothing happens if the request does not exist
    (any more), is not resumable, or has no more input. Raises InvalidCase if a segment is to continue as the model
    does: input does not depend on what the model says.
    """

    request: RequestNumber
    prompt: Annotated[tuple[Segment, ...], Meta(max_length=16)] = ()
    outputs: Annotated[int, Meta(ge=1, le=4096)] = 1

    def __post_init__(self) -> None:
        if any(segment.family == CONTINUATION for segment in self.prompt):
            raise InvalidCase(f"input of request {self.request} cannot continue as the model does")

    @property
    def closes(self) -> bool:
        """Whether no more input comes."""
        return not self.prompt


class Abort(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="abort"):
    """The client of a request disconnects; nothing happens if the request does not exist (any more)."""

    request: RequestNumber


class Finish(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="finish"):
    """The model ends a request: the next token it samples for it is the stop token."""

    request: RequestNumber


class Reset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="reset"):
    """The prefix cache is cleared; `running` forces it, sending running requests back to the queue."""

    running: bool = False


class Pause(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="pause"):
    """Scheduling stops, by the engine's own call: it aborts all requests, waits for those that run, or keeps them.

    `clear_cache` has the engine reset its caches once it is idle, as it does by default; that sends requests that were
    kept back to the queue. `level` None is a pause; else the engine sleeps: 0 keeps its memory and its caches, 1 and 2
    discard the KV cache, whatever `clear_cache` says.

    The modes `all` and `new` set the scheduler's state alone, for all requests or for new ones: the engine's `keep` and
    `wait` without clearing its caches.
    """

    mode: PauseMode = "all"
    clear_cache: bool = True
    level: Annotated[int, Meta(ge=0, le=2)] | None = None

    @property
    def clears(self) -> bool:
        """Whether caches are reset by it."""
        if self.mode in ("all", "new"):
            return False
        return self.clear_cache if self.level is None else self.level > 0


class Resume(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="resume"):
    """Scheduling continues, by the engine's own call; an engine that sleeps wakes up."""


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="step"):
    """`repeat` engine steps.

    `drafts` says how many tokens the drafter proposes after the step, `right` how many of them are what the model will
    sample; both for the request with number n at index n modulo their length, and empty means all. A method whose
    drafter always proposes the full number ignores `drafts`. `early` means that the device is done before the host
    continues, which matters only to an asynchronous engine: the results of the step reach the host before the next step
    is prepared, where the release allows that.
    """

    drafts: Annotated[tuple[Small, ...], Meta(max_length=16)] = ()
    right: Annotated[tuple[Small, ...], Meta(max_length=16)] = ()
    early: bool = False
    repeat: Annotated[int, Meta(ge=1, le=256)] = 1


Event = Add | Input | Abort | Finish | Reset | Pause | Resume | Step


class SequenceCase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A configuration and its events. Raises InvalidCase if a request is longer than allowed, with all its input, or
    added twice."""

    version: Literal[1] = SEQUENCE_VERSION
    config: SequenceConfig
    events: Annotated[tuple[Event, ...], Meta(max_length=2**14)]

    def __post_init__(self) -> None:
        lengths: dict[int, int] = {}
        for event in self.events:
            if not isinstance(event, Add | Input):
                continue
            number = event.request
            if isinstance(event, Add) and number in lengths:
                raise InvalidCase(f"request {number} is added twice")
            if isinstance(event, Add) or number in lengths:
                lengths[number] = lengths.get(number, 0) + asked_for(event)
            if lengths.get(number, 0) > self.config.length_limit:
                raise InvalidCase(f"request {number} is longer than {self.config.length_limit} tokens")

    @property
    def steps(self) -> int:
        """Engine steps that the events ask for."""
        return sum(event.repeat for event in self.events if isinstance(event, Step))

    @property
    def streams(self) -> bool:
        """Whether a request is resumable."""
        return any(isinstance(event, Add) and event.resumable for event in self.events)

    @property
    def resets(self) -> bool:
        """Whether the caches are reset by force: by a reset that takes running requests, or by a pause."""
        return any(
            event.running if isinstance(event, Reset) else isinstance(event, Pause) and event.clears
            for event in self.events
        )


def asked_for(event: Add | Input) -> int:
    """Tokens of a prompt, and those that it asks for."""
    return sum(segment.length for segment in event.prompt) + (event.outputs if event.prompt else 0)


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(SequenceCase)


def encode_sequence(case: SequenceCase) -> bytes:
    """JSON of a sequence case: the same case always gives the same bytes."""
    return _ENCODER.encode(case)


def decode_sequence(text: bytes) -> SequenceCase:
    """Read a sequence case from JSON. Raises InvalidCase, with one line, for anything that is not valid."""
    try:
        return _DECODER.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidCase(str(error)) from error

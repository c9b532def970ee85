"""The data of a sequence: settings of an engine, what requests say, and what happens."""

from __future__ import annotations

from typing import Any, NamedTuple


class Settings(NamedTuple):
    """An engine for a hybrid model with attention (group 0), Mamba layers in `align` mode, and perhaps a drafter with
    attention of its own. Counts are tokens, but for `requests` and `num_blocks`."""

    runner: str
    block_size: int
    length_limit: int
    budget: int
    requests: int
    num_blocks: int
    asynchronous: bool = False
    mamba_groups: int = 1
    drafter_block_size: int | None = None
    spec_method: str = "none"
    num_spec: int = 0
    retention: int | None = None
    checkpoint_alignment: int | None = None
    match_unit: int | None = None
    shared_prefix_checkpoint: bool = False
    policy: str = "fcfs"
    prefill_threshold: int = 0


class Add(NamedTuple):
    """A request arrives. `text` is its prompt, then what the model says; the first `prompt` tokens are the prompt."""

    name: str
    text: list[int]
    prompt: int
    outputs: int
    priority: int = 0


class Abort(NamedTuple):
    """Its client goes away."""

    name: str


class Finish(NamedTuple):
    """The next token that the model samples for the request is the stop token."""

    name: str


class Reset(NamedTuple):
    """The prefix cache is cleared; `running`: running requests go back to the queue for it."""

    running: bool


class Pause(NamedTuple):
    """Scheduling stops, by the engine core's own call; with a `level` the engine sleeps."""

    mode: str
    clear_cache: bool
    level: int | None


class Resume(NamedTuple):
    """Scheduling continues."""


class Steps(NamedTuple):
    """Engine steps. `drafts`: how many tokens the drafter proposes, `right`: how many of them are what the model says,
    by the request's number modulo the length; empty: all. `early`: an asynchronous device is done before the next
    step."""

    repeat: int
    drafts: tuple[int, ...] = ()
    right: tuple[int, ...] = ()
    early: bool = False


Event = Any
STOP = 0
"""The token that ends a request."""

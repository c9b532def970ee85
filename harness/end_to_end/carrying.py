"""Carrying over is making the same sequence for an engine: other block sizes, other groups, real drafts.

Sequence files have blocks of 4 to 16 tokens; a CPU's attention takes multiples of 32. What decides whether an issue
shows is where lengths lie in a block, so a length keeps its place: from the block's start, to its end, or in
proportion. No rule is right for all files. So several are tried, each for lengths and for the budget, and the symbolic
run says which of them still shows the finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from harness.case.problem import InvalidCase
from harness.case.sequence import CONTINUATION, Add, Event, Finish, Segment, SequenceCase, SequenceConfig, Step
from harness.end_to_end.messages import EngineFacts

BLOCK = 32
"""Tokens of a block on an engine: the least that a CPU's attention takes."""

LONGEST = 1000
"""Tokens of a request at most, outputs included. The plain run has room for a few more."""

MORE_OUTPUTS = 16
"""Tokens that requests say in addition: damage needs a few until it shows."""

PROBE = 2**19
"""Number of the first probe: a request that asks for a text once more, to see whether the prefix cache is sound."""

MOST_PROBES = 16
"""Maximum number of probes of a sequence."""

ASTRAY, ASTRAY_LENGTH = 2**19, 3
"""The text with which a probe leaves that of the request it follows, and for how many tokens."""

LAST_STEPS = 64
"""Steps after the last event. Requests that are left over say their tokens then."""


class CannotCarry(Exception):
    """The sequence needs something that no engine here has; the message says what."""


class Rule(NamedTuple):
    """How a length inside a block of `small` tokens becomes one inside a block of `large` tokens."""

    name: str
    inside: Callable[[int, int, int], int]

    def __call__(self, length: int, small: int, large: int) -> int:
        blocks, rest = divmod(length, small)
        return blocks * large + (self.inside(rest, small, large) if rest else 0)


def _near(rest: int, small: int, large: int) -> int:
    return rest if rest <= small // 2 else large - (small - rest)


RULES = (
    Rule("as far from the nearest border of a block", _near),
    Rule("as far from the block's start", lambda rest, small, large: rest),
    Rule("as far from the block's end", lambda rest, small, large: large - (small - rest)),
    Rule("in proportion", lambda rest, small, large: rest * large // small),
)


class Carried(NamedTuple):
    """A sequence for an engine, and how it was made."""

    case: SequenceCase
    how: str


def carried(case: SequenceCase, facts: EngineFacts) -> Iterator[Carried]:
    """The forms of a sequence for engines that are as `facts` says, the most faithful ones first. Raises
    CannotCarry."""
    _require_possible(case, facts)
    made: set[bytes] = set()
    for more in (MORE_OUTPUTS, 0):
        for lengths in RULES:
            for budget in (lengths, *(rule for rule in RULES if rule is not lengths)):
                try:
                    form = _carry(case, facts, lengths, budget, more)
                except InvalidCase:
                    continue  # too long, or a budget below what a decode needs
                text = msgspec.json.encode(form)
                if text not in made:
                    made.add(text)
                    yield Carried(form, f"lengths {lengths.name}, budget {budget.name}, {more} more outputs")


def _require_possible(case: SequenceCase, facts: EngineFacts) -> None:
    config = case.config
    if config.asynchronous:
        raise CannotCarry("asynchronous: engines here are synchronous")
    if config.drafter_block_size is not None:
        raise CannotCarry("a drafter with blocks of its own: the scripted drafter has none")
    if any(isinstance(event, Finish) for event in case.events):
        raise CannotCarry("a finish event: what a real model samples cannot be chosen")
    if config.checkpoint_alignment is not None and facts.checkpoint_alignment is None:
        raise CannotCarry("checkpoints inside a prefill: layers of this engine export none")
    if config.match_unit is not None and config.match_unit < config.block_size and BLOCK % config.block_size:
        raise CannotCarry(f"partial hits in blocks of {config.block_size} tokens, which do not divide {BLOCK}")


def _carry(case: SequenceCase, facts: EngineFacts, lengths: Rule, budget: Rule, more: int) -> SequenceCase:
    """Raises InvalidCase where the parts do not fit together."""
    config = case.config
    small = config.block_size

    def length(tokens: int) -> int:
        return lengths(tokens, small, BLOCK)

    events: list[Event] = []
    longest, last = 4, Step(repeat=LAST_STEPS)
    probes: list[Add] = []
    for event in case.events:
        if isinstance(event, Step):
            last = msgspec.structs.replace(event, repeat=LAST_STEPS)
        if not isinstance(event, Add):
            events.append(event)
            continue
        add = _carry_request(event, length, more)
        total = sum(part.length for part in add.prompt) + add.outputs
        longest = max(longest, total + MORE_OUTPUTS)
        events.append(add)
        probes += _probes(add, PROBE + len(probes))
    fits = {
        "runner": "V1",
        "block_size": BLOCK,
        "mamba_groups": sum(kind == "mamba" for kind, _ in facts.groups),
        "spec_method": "ngram" if config.num_spec else "none",
        "retention": None if config.retention is None else config.retention // small * BLOCK,
        "checkpoint_alignment": facts.checkpoint_alignment,
        "match_unit": None if config.match_unit is None else config.match_unit * BLOCK // small,
        "kernel": facts.window,
        "length_limit": min(LONGEST, length(longest) if longest < small else longest + BLOCK),
        "budget": max(budget(config.budget, small, BLOCK), config.num_spec + 1),
        "prefill_threshold": budget(config.prefill_threshold, small, BLOCK),
        "num_blocks": 4096,
        "vocabulary": 64,
    }
    roomy = msgspec.structs.replace(config, **fits)
    spare = config.num_blocks - config.blocks_for_one()
    blocks = roomy.blocks_for_one() + (spare if spare < 32 else 96 * config.requests)
    fitting = msgspec.structs.replace(roomy, num_blocks=min(blocks, 4096))
    tail: tuple[Event, ...] = (last, *probes[:MOST_PROBES], last, last) if more else (last,)
    return SequenceCase(config=fitting, events=(*events, *tail))


def _carry_request(event: Add, length: Callable[[int], int], more: int) -> Add:
    """A request whose segments and end lie where they lay."""
    segments: list[Segment] = []
    before = now = 0
    for segment in event.prompt:
        before += segment.length
        size = max(length(before) - now, 1)
        segments.append(msgspec.structs.replace(segment, length=size))
        now += size
    outputs = max(length(before + event.outputs) - now, event.outputs)
    return msgspec.structs.replace(event, prompt=tuple(segments), outputs=outputs + more)


def _probes(add: Add, number: int) -> list[Add]:
    """The next turn of a request's conversation, which is its prompt and all that the model said; and requests that
    share its text up to a block's end, and a little more, and then leave it."""
    text = (*add.prompt, Segment(family=CONTINUATION, length=add.outputs))[:16]
    shared = [text]
    for end in range(BLOCK, sum(part.length for part in text), BLOCK):
        shared.append((*_cut(text, end), Segment(family=ASTRAY, length=ASTRAY_LENGTH))[-16:])
    return [
        msgspec.structs.replace(add, request=number + i, prompt=prompt, outputs=MORE_OUTPUTS)
        for i, prompt in enumerate(shared)
    ]


def _cut(text: tuple[Segment, ...], length: int) -> tuple[Segment, ...]:
    """The first `length` tokens of a text."""
    kept: list[Segment] = []
    for segment in text:
        if length <= 0:
            break
        kept.append(msgspec.structs.replace(segment, length=min(segment.length, length)))
        length -= segment.length
    return tuple(kept)


def is_probe(request: int) -> bool:
    """Whether a request of a carried sequence was added to see whether the prefix cache is sound."""
    return request >= PROBE


def describe(config: SequenceConfig) -> str:
    """A carried configuration in a line."""
    drafts = f"{config.num_spec} drafts" if config.num_spec else "no drafts"
    return (
        f"V1, blocks of {config.block_size}, {drafts}, budget {config.budget}, {config.requests} requests,"
        f" {config.num_blocks} blocks, retention {config.retention}"
    )

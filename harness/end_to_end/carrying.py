"""Carrying over is making the same sequence for an engine: other block sizes, other groups, real drafts.

Sequence files have blocks of 4 to 16 tokens; a CPU's attention takes multiples of 32. What decides whether an issue
shows is where lengths lie in a block, so a length keeps its place: from the block's start, to its end, or in
proportion. No rule is right for all files. So several are tried, each for lengths and for the budget, and the symbolic
run says which of them still shows the finding.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from harness.case.problem import InvalidCase
from harness.case.sequence import (
    CONTINUATION,
    Add,
    Event,
    Segment,
    SequenceCase,
    SequenceConfig,
    SpecMethod,
    Step,
    decode_sequence,
    encode_sequence,
)
from harness.end_to_end.kinds import KINDS
from harness.end_to_end.messages import EngineFacts, model_of

BLOCK = 32
"""Tokens of a block on an engine: the least that a CPU's attention takes."""

LONGEST = 1000
"""Tokens of a request at most, outputs included. The plain run has room for a few more."""

MOST_BUDGET = 2048
"""Tokens of a step at most: more than all requests of a sequence ask for."""

TIGHT = 32
"""A pool with fewer blocks than these in addition to those that one request needs keeps as many of them."""

MOST_SPARE = 4
"""Blocks that a tight pool has in addition to those that one request needs: soon each has been used before."""

MOST_STEPS = 256
"""Steps of one event at most."""

MODEL_METHODS: tuple[SpecMethod, ...] = ("mtp", "eagle", "draft_model")
"""Drafting methods of models that a scripted drafter takes the place of. Others become `mtp` or `ngram`."""

MORE_OUTPUTS = 16
"""Tokens that requests say in addition: damage needs a few until it shows."""

PROBE = 2**19
"""Number of the first probe: a request that asks for a text once more, to see whether the prefix cache is sound."""

MOST_PROBES = 16
"""Maximum number of probes of a sequence."""

READER = PROBE + MOST_PROBES
"""Number of a request that is added in the middle, to read what the cache holds then."""

READERS_LATER, READER_OUTPUTS = 4, 12
"""In how many steps such a request may arrive, and how many tokens it says."""

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
    requests = sum(isinstance(event, Add) for event in case.events)
    for way in _ways(case.config, requests):
        try:
            form = _carry(case, facts, way)
            text = encode_sequence(form)
            decode_sequence(text)
        except InvalidCase:
            continue  # too long, or a budget below what a decode needs
        if text in made:
            continue
        made.add(text)
        large = way.unit.grain.large
        of = "" if large == BLOCK else f" (in units of {large})"
        parts = [f"lengths {way.lengths.name}{of}", f"budget {way.budget.name}"]
        parts += [f"{way.more} more outputs"] if way.more else []
        parts += [f"{way.longer} times the steps"] if way.longer > 1 else []
        parts += ["in a tight pool"] if way.tight else []
        parts += [f"request {way.shift.request} longer by {way.shift.tokens}"] if way.shift.tokens else []
        parts += way.mode.differs_from(case.config)
        yield Carried(form, ", ".join(parts))


def require_engine(case: SequenceCase) -> None:
    """Raise CannotCarry where no engine of any release here has what a sequence asks for."""
    config = case.config
    if case.streams:
        raise CannotCarry("streaming input: the plain run of the model does not know where a turn ends")
    if model_of(config).layers not in KINDS:
        raise CannotCarry(f"layers of {config.layers}: no engine here has a model with them")
    if config.drafter_block_size is not None:
        raise CannotCarry("a drafter with blocks of its own: the scripted drafter has none")


def _require_possible(case: SequenceCase, facts: EngineFacts) -> None:
    require_engine(case)
    config = case.config
    if config.checkpoint_alignment is not None and facts.checkpoint_alignment is None:
        raise CannotCarry("checkpoints inside a prefill: layers of this engine export none")


class Grain(NamedTuple):
    """What a length keeps its place in: `small` tokens become `large` ones. These are blocks, or the units at which
    prefix hits may end."""

    small: int
    large: int


class Unit(NamedTuple):
    """At which multiples prefix hits may end on the engine (None: at block boundaries), and what lengths keep their
    place in."""

    unit: int | None
    grain: Grain


def _units(config: SequenceConfig) -> list[Unit]:
    """Units in proportion to the blocks, and units as they are."""
    blocks, match = Grain(config.block_size, BLOCK), config.match_unit
    if match is None:
        return [Unit(None, blocks)]
    scaled = max(unit for unit in (1, 2, 4, 8, 16, 32) if unit <= max(match * BLOCK // config.block_size, 1))
    found = [Unit(scaled, blocks)]
    if scaled * config.block_size == match * BLOCK:
        found.append(Unit(scaled, Grain(match, scaled)))
    if BLOCK % match == 0 and match != scaled:
        found.append(Unit(match, blocks))
    return found


class Mode(NamedTuple):
    """How the engine schedules, and where its drafts come from."""

    asynchronous: bool
    method: SpecMethod

    def differs_from(self, config: SequenceConfig) -> Iterator[str]:
        """What is not as in the sequence."""
        if self.asynchronous != config.asynchronous:
            yield "synchronous"
        if self.method != config.spec_method:
            yield f"drafts by {self.method}"


def _modes(config: SequenceConfig) -> list[Mode]:
    """As the sequence is, then as it is not: each is an engine that a user can have."""
    method = config.spec_method
    if method == "none":
        return [Mode(asynchronous, method) for asynchronous in sorted({config.asynchronous, False}, reverse=True)]
    model: SpecMethod = method if method in MODEL_METHODS else "mtp"
    modes = [Mode(config.asynchronous, model), Mode(False, model), Mode(False, "ngram")]
    if method == "ngram":
        modes = modes[::-1]
    return list(dict.fromkeys(modes))


class Shift(NamedTuple):
    """The first segment of the request that is added in this place is so many tokens longer."""

    request: int
    tokens: int


NO_SHIFT = Shift(0, 0)

MOST_SHIFTED = 3
"""Only so many requests of a sequence are shifted."""


class _Way(NamedTuple):
    """One way to carry: `more` outputs of each request, `longer` runs of steps, in a `tight` pool."""

    mode: Mode
    more: int
    longer: int
    tight: bool
    unit: Unit
    lengths: Rule
    budget: Rule
    shift: Shift = NO_SHIFT


def _ways(config: SequenceConfig, requests: int) -> Iterator[_Way]:
    """The most faithful ones first. Last are those with one prompt longer than any rule says: what shows only if two
    requests reach a block's end in one step is a matter of single tokens."""
    pairs = [(one, one) for one in RULES] + [(one, other) for one in RULES for other in RULES if one is not other]
    longer = dict.fromkeys((1, max(BLOCK // config.block_size, 1)))
    choices = itertools.product(_modes(config), (False, True), longer, (MORE_OUTPUTS, 0), _units(config), pairs)
    for mode, tight, times, more, unit, (lengths, budget) in choices:
        yield _Way(mode, more, times, tight, unit, lengths, budget)
    shifts = [Shift(request, tokens) for tokens in range(1, BLOCK) for request in range(min(requests, MOST_SHIFTED))]
    mode, unit = _modes(config)[0], _units(config)[0]
    for rule, more, times, shift in itertools.product(RULES[:2], (0, MORE_OUTPUTS), longer, shifts):
        yield _Way(mode, more, times, False, unit, rule, rule, shift)


def _carry(case: SequenceCase, facts: EngineFacts, way: _Way) -> SequenceCase:
    """Raises InvalidCase where the parts do not fit together."""
    config = case.config
    small, more = config.block_size, way.more

    def length(tokens: int) -> int:
        return way.lengths(tokens, *way.unit.grain)

    events: list[Event] = []
    longest, last = 4, Step(repeat=LAST_STEPS)
    probes: list[Add] = []
    number = 0
    for event in case.events:
        if isinstance(event, Step):
            last = msgspec.structs.replace(event, repeat=LAST_STEPS)
            events.append(msgspec.structs.replace(event, repeat=min(event.repeat * way.longer, MOST_STEPS)))
        elif isinstance(event, Add):
            add = _carry_request(event, length, more, way.shift.tokens if way.shift.request == number else 0)
            number += 1
            longest = max(longest, _total(add) + MORE_OUTPUTS + ASTRAY_LENGTH)
            events.append(add)
            probes += _probes(add, PROBE + len(probes))
        else:
            events.append(event)
    limit = min(LONGEST, longest + BLOCK if more else length(config.length_limit))
    fits = {
        "runner": "V1",
        "layers": model_of(config).layers,
        "asynchronous": way.mode.asynchronous,
        "block_size": BLOCK,
        "mamba_groups": sum(kind == "mamba" for kind, _ in facts.groups),
        "spec_method": way.mode.method,
        "retention": None if config.retention is None else config.retention // small * BLOCK,
        "checkpoint_alignment": facts.checkpoint_alignment,
        "match_unit": way.unit.unit,
        "kernel": facts.window,
        "length_limit": limit,
        "budget": min(max(way.budget(config.budget, small, BLOCK), config.num_spec + 1), MOST_BUDGET),
        "prefill_threshold": min(way.budget(config.prefill_threshold, small, BLOCK), MOST_BUDGET),
        "num_blocks": 4096,
        "vocabulary": 64,
    }
    roomy = msgspec.structs.replace(config, **fits)
    spare = config.num_blocks - config.blocks_for_one()
    if spare >= TIGHT:
        spare = MOST_SPARE if way.tight else TIGHT * config.requests
    blocks = roomy.blocks_for_one() + spare
    fitting = msgspec.structs.replace(roomy, num_blocks=min(blocks, 4096))
    fitting_probes = [probe for probe in probes if _total(probe) <= limit][:MOST_PROBES]
    tail: tuple[Event, ...] = (last, *fitting_probes, last, last)
    return SequenceCase(config=fitting, events=(*events, *tail))


def _total(add: Add) -> int:
    return sum(part.length for part in add.prompt) + add.outputs


def _carry_request(event: Add, length: Callable[[int], int], more: int, shift: int) -> Add:
    """A request whose segments and end lie where they lay, and that is longer by `shift`."""
    segments: list[Segment] = []
    before = now = 0
    for segment in event.prompt:
        before += segment.length
        size = max(length(before) - now, 1)
        segments.append(msgspec.structs.replace(segment, length=size + (0 if segments else shift)))
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


def with_readers(form: Carried, step: int) -> Iterator[Carried]:
    """A form with one more request that arrives in or soon after a step, and asks for the text of one that is there: so
    an entry that is in the prefix cache for a short time is read."""
    events: list[Event] = []
    for event in form.case.events:
        if isinstance(event, Step):
            events += [msgspec.structs.replace(event, repeat=1)] * event.repeat
        else:
            events.append(event)
    steps = [place for place, event in enumerate(events) if isinstance(event, Step)]
    for later, end in enumerate(steps[step - 1 : step - 1 + READERS_LATER]):
        before, after = events[: end + 1], events[end + 1 : end + 1 + LAST_STEPS]
        for add in [event for event in before if isinstance(event, Add) and not is_probe(event.request)]:
            for said in dict.fromkeys((add.outputs - 1, 0)):
                text = (*add.prompt, *([Segment(family=CONTINUATION, length=said)] if said else []))
                astray = Segment(family=ASTRAY, length=ASTRAY_LENGTH)
                reader = Add(request=READER, prompt=(*text, astray)[-16:], outputs=READER_OUTPUTS, priority=0)
                try:
                    case = SequenceCase(config=form.case.config, events=(*before, reader, *after))
                except InvalidCase:
                    continue  # too long
                yield Carried(case, f"{form.how}, request {add.request} read {later} steps later")


def is_probe(request: int) -> bool:
    """Whether a request of a carried sequence was added to see whether the prefix cache is sound."""
    return request >= PROBE


def describe(config: SequenceConfig) -> str:
    """A carried configuration in a line."""
    drafts = f"{config.num_spec} drafts by {config.spec_method}" if config.num_spec else "no drafts"
    scheduling = "asynchronous, " if config.asynchronous else ""
    return (
        f"V1, {scheduling}blocks of {config.block_size}, {drafts}, budget {config.budget}, {config.requests} requests,"
        f" {config.num_blocks} blocks, retention {config.retention}"
    )

"""The passes over a step sequence: closer to production's defaults, fewer events, then a simpler configuration.

A finding that needs no option is worth more than one with fewer events: a user who sets nothing can have it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from harness.case.operations import Runner
from harness.case.production_defaults import DeclaredLayers, ProductionDefaults, deviations
from harness.case.sequence import (
    Add,
    Event,
    Input,
    Layers,
    Pause,
    PauseMode,
    Segment,
    SequenceCase,
    SequenceConfig,
    Step,
    asked_for,
    encode_sequence,
)
from harness.shrink.proposals import Pass, Proposal

ROOMY, AMPLE_BUDGET = 256, 2048
"""Blocks and tokens that amount to no limit for sequences of this length."""

_FEW = 24
"""Maximum number of events of a sequence for which all pairs of them are tried."""


def _with(case: SequenceCase, events: list[object]) -> SequenceCase:
    return msgspec.convert(
        {"version": 1, "config": msgspec.to_builtins(case.config), "events": msgspec.to_builtins(events)}, SequenceCase
    )


def without_events(case: SequenceCase) -> Iterator[Proposal[SequenceCase]]:
    events = list(case.events)
    size = len(events)
    while size >= 1:
        for start in range(max(len(events) - size, 0), -1, -size):
            kept = events[:start] + events[start + size :]
            yield lambda kept=kept: _with(case, kept)  # type: ignore[misc]
        size //= 2


def without_two_events(case: SequenceCase) -> Iterator[Proposal[SequenceCase]]:
    """Without two events that are not neighbours and need each other, such as a pause and a resume."""
    events = list(case.events)
    if len(events) > _FEW:
        return
    for j in range(len(events) - 1, 1, -1):
        for i in range(j - 2, -1, -1):
            kept = [*events[:i], *events[i + 1 : j], *events[j + 1 :]]
            yield lambda kept=kept: _with(case, kept)  # type: ignore[misc]


def merged_adds(case: SequenceCase) -> Iterator[Proposal[SequenceCase]]:
    """A request takes over the prompt of a later one, which is left out; or it arrives earlier, with the one before."""
    events = list(case.events)
    adds = [i for i, event in enumerate(events) if isinstance(event, Add)]
    for position, i in enumerate(adds):
        one = events[i]
        assert isinstance(one, Add)
        for j in adds[position + 1 :]:
            other = events[j]
            assert isinstance(other, Add)
            merged = msgspec.structs.replace(other, request=one.request)
            kept = [*events[:i], merged, *events[i + 1 : j], *events[j + 1 :]]
            yield lambda kept=kept: _with(case, kept)  # type: ignore[misc]
        if position and adds[position - 1] < i - 1:
            before = adds[position - 1] + 1
            kept = [*events[:before], one, *events[before:i], *events[i + 1 :]]
            yield lambda kept=kept: _with(case, kept)  # type: ignore[misc]


def merged_steps(case: SequenceCase) -> Iterator[Proposal[SequenceCase]]:
    """Neighbouring steps become one, taking the first's or the second's drafts."""
    events = list(case.events)
    for i in range(len(events) - 1):
        one, other = events[i], events[i + 1]
        if isinstance(one, Step) and isinstance(other, Step) and one.repeat + other.repeat <= 256:
            for model in (one, other):
                merged = msgspec.structs.replace(model, repeat=one.repeat + other.repeat)
                kept = [*events[:i], merged, *events[i + 2 :]]
                yield lambda kept=kept: _with(case, kept)  # type: ignore[misc]


def simpler_events(case: SequenceCase) -> Iterator[Proposal[SequenceCase]]:
    events = list(case.events)
    for i, event in enumerate(events):
        for simpler in _simpler(event):
            kept = [*events[:i], simpler, *events[i + 1 :]]
            yield lambda kept=kept: _with(case, kept)  # type: ignore[misc]


def _simpler(event: object) -> Iterator[object]:
    change = msgspec.structs.replace
    if isinstance(event, Step):
        if event.early:
            yield change(event, early=False)
        for name in ("drafts", "right"):
            values = getattr(event, name)
            if values:
                yield change(event, **{name: ()})
            if len(values) > 1:
                yield change(event, **{name: values[:1]})
            if any(values):
                yield change(event, **{name: (0,)})
        for repeat in dict.fromkeys((1, event.repeat // 2, event.repeat - 1)):
            if 0 < repeat < event.repeat:
                yield change(event, repeat=repeat)
    elif isinstance(event, Pause):
        if event.level:
            yield change(event, level=None if event.clear_cache else 0)
        elif event.level == 0:
            yield change(event, level=None, clear_cache=False)
    elif isinstance(event, Add | Input):
        if isinstance(event, Add):
            if event.resumable:
                yield change(event, resumable=False)
            for priority in (0, 1):
                if priority < event.priority:
                    yield change(event, priority=priority)
        for outputs in dict.fromkeys((1, event.outputs // 2, event.outputs - 1)):
            if 0 < outputs < event.outputs:
                yield change(event, outputs=outputs)
        if len(event.prompt) > 1:
            total = sum(segment.length for segment in event.prompt)
            yield change(event, prompt=(Segment(family=event.prompt[0].family, length=total),))
            yield change(event, prompt=event.prompt[:-1])
        for j, segment in enumerate(event.prompt):
            for length in dict.fromkeys((1, segment.length // 2, segment.length - 1)):
                if 0 < length < segment.length:
                    shorter = Segment(family=segment.family, length=length)
                    yield change(event, prompt=(*event.prompt[:j], shorter, *event.prompt[j + 1 :]))
            if segment.family > 0:
                plainer = Segment(family=0, length=segment.length)
                yield change(event, prompt=(*event.prompt[:j], plainer, *event.prompt[j + 1 :]))


_PLAIN: dict[str, tuple[object, ...]] = {
    "asynchronous": (False,),
    "mamba_groups": (1,),
    "drafter_block_size": (None,),
    "checkpoint_alignment": (None, 1),
    "shared_prefix_checkpoint": (False,),
    "match_unit": (None,),
    "retention": (None, 0),
    "policy": ("fcfs",),
    "prefill_threshold": (0,),
    "kernel": (4, 2),
    "vocabulary": (4, 2),
    "spec_method": ("mtp",),
}

LAYERS: tuple[Layers, ...] = ("mamba2", "gated-delta-net", "kda")


class SequenceShrinking:
    """How sequences of a release are shrunk: towards its defaults. `defaults` None: they are not known, and a simple
    option is one that is off."""

    def __init__(self, defaults: ProductionDefaults | None = None) -> None:
        self._defaults = defaults

    @property
    def passes(self) -> tuple[Pass[SequenceCase], ...]:
        """In the order in which they run."""
        return (
            self.towards_defaults,
            without_events,
            self.simpler_configurations,
            merged_steps,
            merged_adds,
            simpler_events,
            without_two_events,
        )

    def size(self, case: SequenceCase) -> tuple[Any, ...]:
        """The key of a sequence, lower for simpler ones: fewer settings that differ from the defaults, fewer events,
        then a simpler configuration, then earlier requests and smaller numbers. Total: sequences that differ have
        different keys."""
        config, events = case.config, case.events
        adds = [i for i, event in enumerate(events) if isinstance(event, Add)]
        text = encode_sequence(case)
        roomy = config.num_blocks >= ROOMY
        return (
            0 if self._defaults is None else len(deviations(case, self._defaults)),
            len(events),
            config.num_spec,
            [self._rank(config, name) for name in _PLAIN],
            0 if config.layers is None else 1 + LAYERS.index(config.layers),
            config.mamba_groups,
            config.requests,
            config.budget < AMPLE_BUDGET,
            0 if config.length_limit >= ROOMY else config.length_limit,
            0 if roomy else 1 + config.num_blocks - config.blocks_for_one(),
            sum(adds),
            _numbers(events),
            len(text),
            text,
        )

    def _plain(self, config: SequenceConfig, name: str) -> tuple[object, ...]:
        """Values of an option, the simplest first."""
        if self._defaults is None:
            return _PLAIN[name]
        if name == "asynchronous":
            return (self._defaults.is_asynchronous(config),)
        if name == "checkpoint_alignment":
            declared = [one for one in self._defaults.layers if one.layers == (config.layers or "mamba2")]
            fitting = [one for one in declared if one.fits(config)]
            return tuple(one.alignment_for(config.match_unit, config.block_size) for one in fitting)
        options = self._defaults.options
        return (options[name],) if name in options else _PLAIN[name]

    def _rank(self, config: SequenceConfig, name: str) -> int:
        """How far an option is from its simplest value."""
        value, simplest = getattr(config, name), self._plain(config, name)
        if name == "spec_method" and not config.num_spec:
            return 0
        return simplest.index(value) if value in simplest else len(simplest)

    def towards_defaults(self, case: SequenceCase) -> Iterator[Proposal[SequenceCase]]:
        """All options that differ from the defaults at once, then one after the other; last, pauses as they are by
        default."""
        defaults, config = self._defaults, case.config
        if defaults is None or not deviations(case, defaults):
            return
        runners = dict.fromkeys((defaults.runner(config), config.runner))
        kinds = [*([] if config.layers is None else [config.layers]), *LAYERS]
        for runner in runners:
            for kind in dict.fromkeys(kinds):
                for one in defaults.layers:
                    if one.layers == kind:
                        values = {**defaults.options, "runner": runner, "drafter_block_size": None}
                        yield from self._as_declared(case, one, values)
        for runner in runners:
            if runner != config.runner:
                yield from _changed(case, runner=runner, asynchronous=defaults.is_asynchronous(_as(config, runner)))
                yield from _changed(case, runner=runner)
        for name, value in defaults.options.items():
            if value != getattr(config, name):
                yield from _changed(case, **{name: value})
        if config.prefill_threshold and not defaults.prefill_threshold:
            # What limits a chunk may be the token budget just as well, which is a size and no option.
            threshold = config.prefill_threshold
            for more in dict.fromkeys((0, 1, config.num_spec + 1, 2 * (config.num_spec + 1), config.block_size - 1)):
                yield from _changed(case, prefill_threshold=0, budget=threshold + more)
        if config.drafter_block_size is not None:
            yield from _changed(case, drafter_block_size=None)
        if config.asynchronous != defaults.is_asynchronous(config):
            yield from _changed(case, asynchronous=not config.asynchronous)
        for one in defaults.layers:
            yield from self._as_declared(case, one, {})
        yield from _with_default_pauses(case)

    def _as_declared(
        self, case: SequenceCase, one: DeclaredLayers, values: dict[str, Any]
    ) -> Iterator[Proposal[SequenceCase]]:
        """With such layers, and their checkpoints."""
        assert self._defaults is not None
        config = case.config
        match_unit = values.get("match_unit", config.match_unit)
        alignment = one.alignment_for(match_unit, config.block_size)
        if config.block_size % (alignment or 1):
            return
        if "runner" in values:
            values["asynchronous"] = self._defaults.is_asynchronous(_as(config, values["runner"]))
        yield from _changed(case, **{**values, "layers": one.layers, "checkpoint_alignment": alignment})

    def simpler_configurations(self, case: SequenceCase) -> Iterator[Proposal[SequenceCase]]:
        """Simpler options first, then fewer drafts and requests, then numbers that have no effect."""
        config = case.config
        spare = config.num_blocks - config.blocks_for_one()
        for name in _PLAIN:
            current = getattr(config, name)
            for value in self._plain(config, name):
                if value == current:
                    break
                yield from _changed(case, **{name: value})
        if self._defaults is not None and config.layers is not None:
            for one in self._defaults.layers:
                if LAYERS.index(one.layers) < LAYERS.index(config.layers):
                    yield from self._as_declared(case, one, {})
        if config.num_spec:
            yield from _changed(case, num_spec=0, spec_method="none", drafter_block_size=None)
            for count in range(1, config.num_spec):
                yield from _changed(case, num_spec=count)
        for groups in range(2, config.mamba_groups):
            yield from _changed(case, mamba_groups=groups)
        for requests in range(1, config.requests):
            yield from _changed(case, requests=requests)
        if config.budget < AMPLE_BUDGET:
            yield lambda: _valid(config, {"budget": AMPLE_BUDGET}, case)
        if config.num_blocks < ROOMY:
            yield lambda: _valid(config, {"num_blocks": ROOMY}, case)
        if config.length_limit < ROOMY:
            yield lambda: _valid(config, {"length_limit": ROOMY, "num_blocks": max(config.num_blocks, 512)}, case)
        if config.num_blocks < ROOMY:  # a small pool matters: the smallest one, for requests no longer than these
            longest = max(_lengths(case).values(), default=0)
            if 4 <= longest < config.length_limit:
                yield from _changed(case, length_limit=longest)
            if spare:
                yield lambda: _with_spare(config, {}, 0, case)


def _as(config: SequenceConfig, runner: Runner) -> SequenceConfig:
    return msgspec.structs.replace(config, runner=runner)


def _changed(case: SequenceCase, **values: object) -> Iterator[Proposal[SequenceCase]]:
    """Another configuration.

    A finding that needs a pool short of blocks is lost if an option that takes blocks is removed and the pool stays the
    same. So each change is tried with the same number of blocks, then with the same number of spare blocks beyond the
    need of one request.
    """
    config = case.config
    spare = config.num_blocks - config.blocks_for_one()
    yield lambda: _valid(config, values, case)
    yield lambda: _with_spare(config, values, spare, case)


def _with_default_pauses(case: SequenceCase) -> Iterator[Proposal[SequenceCase]]:
    """A pause that keeps the caches becomes one that clears them."""
    events = list(case.events)
    for i, event in enumerate(events):
        if isinstance(event, Pause) and not event.clears:
            mode: PauseMode = {"all": "keep", "new": "wait"}.get(event.mode, event.mode)  # type: ignore[assignment]
            plain = Pause(mode=mode, clear_cache=True)
            yield lambda i=i, plain=plain: _with(case, [*events[:i], plain, *events[i + 1 :]])  # type: ignore[misc]


def _lengths(case: SequenceCase) -> Counter[int]:
    """The most tokens of each request."""
    lengths: Counter[int] = Counter()
    for event in case.events:
        if isinstance(event, Add | Input):
            lengths[event.request] += asked_for(event)
    return lengths


def _valid(config: SequenceConfig, values: dict[str, object], case: SequenceCase) -> SequenceCase:
    fields = {name: getattr(config, name) for name in SequenceConfig.__struct_fields__}
    simpler = msgspec.convert(msgspec.to_builtins({**fields, **values}), SequenceConfig)
    return SequenceCase(config=simpler, events=case.events)


def _with_spare(config: SequenceConfig, values: dict[str, object], spare: int, case: SequenceCase) -> SequenceCase:
    """The change, with `spare` more blocks than one request then needs."""
    roomy = _valid(config, {**values, "num_blocks": 4096}, case)
    return _valid(config, {**values, "num_blocks": roomy.config.blocks_for_one() + spare}, case)


def _numbers(events: Sequence[Event]) -> list[int]:
    steps = [event for event in events if isinstance(event, Step)]
    adds = [event for event in events if isinstance(event, Add | Input)]
    lists = [values for step in steps for values in (step.drafts, step.right)]
    segments = [segment for add in adds for segment in add.prompt]
    return [
        sum(step.early for step in steps),
        sum(map(len, lists)),
        sum(map(sum, lists)),
        sum(step.repeat for step in steps),
        sum(add.priority for add in adds if isinstance(add, Add)),
        sum(add.outputs for add in adds),
        len(segments),
        sum(segment.length for segment in segments),
        sum(abs(segment.family) for segment in segments),
    ]

"""Drawing the events of an engine: requests that share prefixes, steps, occasional disruptions (abort, reset, pause).

Lengths of prompts and outputs lie near block boundaries. There are few families, so that prefixes are shared. A request
may continue where an earlier one ended, as the next turn of a conversation does.
"""

from __future__ import annotations

from harness.case.production_defaults import ProductionDefaults
from harness.case.sequence import (
    CONTINUATION,
    Abort,
    Add,
    Event,
    Finish,
    Input,
    Pause,
    PauseMode,
    Reset,
    Resume,
    Segment,
    SequenceCase,
    SequenceConfig,
    Step,
)
from harness.generators.draw import Draw
from harness.generators.sequences.configurations import Pins, draw_configuration

SEQUENCE_GENERATOR_VERSION = 5
"""Increases whenever the same seed gives other sequences than before."""

STEPS = 120
"""Engine steps of the longest sequences. Others stop at a half or a quarter, which leaves time for more
configurations."""


def draw_sequence(
    draw: Draw, pins: Pins | None = None, steps: int = STEPS, defaults: ProductionDefaults | None = None
) -> SequenceCase:
    """A sequence of at most `steps` engine steps; with `defaults`, for a user of that release."""
    config = draw_configuration(draw, pins, defaults)
    length = max(1, steps // draw.choice((1, 2, 4)))
    return SequenceCase(
        config=config,
        events=tuple(_EventDraw(draw, config, defaults is not None and defaults.streams).draw_events(length)),
    )


class _EventDraw:
    def __init__(self, draw: Draw, config: SequenceConfig, streams: bool) -> None:
        self._draw, self._config = draw, config
        self._streams = streams and draw.boolean(0.15)
        self._room: dict[int, int] = {}
        """Of each session that has not had all its input, the tokens that it may still have."""
        self._families = draw.integer(1, 3)
        self._added: list[Add] = []
        self._pace = draw.choice((2, 4, 4, 8))
        self._drafts = draw.choice(((), (0, 1), (config.num_spec,), (1,)))

    def draw_events(self, steps: int) -> list[Event]:
        draw = self._draw
        events: list[Event] = [self._add()]
        left, paused = steps, False
        while left > 0:
            event: Event
            kinds = (("step", 56), ("add", 28), ("abort", 2), ("finish", 2), ("reset", 2), ("pause", 1))
            kind = draw.weighted((*kinds, ("input", 24)) if self._room else kinds)
            if kind == "step" or (paused and kind == "pause"):
                if paused and draw.boolean(0.7):
                    events.append(Resume())
                    paused = False
                event = self._step(left)
                left -= event.repeat
            elif kind == "add":
                event = self._add()
            elif kind in ("abort", "finish"):
                number = draw.choice(self._added[-6:]).request
                event = Abort(request=number) if kind == "abort" else Finish(request=number)
            elif kind == "input":
                event = self._input()
            elif kind == "reset":
                event = Reset(running=draw.boolean(0.7))
            else:
                event = self._pause()
                paused = True
            events.append(event)
        return events

    def _pause(self) -> Pause:
        """By default a pause clears the caches; callers that update weights keep them."""
        mode: PauseMode = self._draw.weighted((("keep", 4), ("wait", 3), ("abort", 1)))
        level = self._draw.choice((0, 1, 2)) if self._draw.boolean(0.3) else None
        return Pause(mode=mode, clear_cache=self._draw.boolean(0.4), level=level)

    def _step(self, left: int) -> Step:
        draw, num_spec = self._draw, self._config.num_spec
        right: tuple[int, ...] = ()
        if num_spec and draw.boolean(0.65):  # else all of them: states then move within their block
            right = tuple(draw.boundary(0, num_spec) for _ in range(draw.integer(1, 3)))
        drafts = self._drafts
        if num_spec and self._config.spec_method == "ngram":
            drafts = tuple(draw.integer(0, num_spec) for _ in range(draw.integer(1, 3)))
        early = self._config.asynchronous and draw.boolean(0.15)
        return Step(
            drafts=tuple(min(count, 255) for count in drafts),
            right=right,
            early=early,
            repeat=min(left, draw.integer(1, self._pace)),
        )

    def _add(self) -> Add:
        draw, limit = self._draw, self._config.length_limit
        prompt = self._prompt(limit - 2)
        length = sum(segment.length for segment in prompt)
        room = limit - length
        size = self._config.block_size
        # What goes wrong at a boundary shows in a request that continues.
        outputs = draw.boundary(1, room, (2, size, size + 2, 2 * size + 2, 3 * size + 1))
        priority = draw.integer(0, 2) if self._config.policy == "priority" else 0
        number, resumable = len(self._added), self._streams and draw.boolean(0.5)
        if resumable:
            outputs = min(outputs, draw.integer(1, size + 2))
            self._room[number] = room - outputs
        add = Add(request=number, prompt=prompt, outputs=outputs, priority=priority, resumable=resumable)
        self._added.append(add)
        return add

    def _input(self) -> Input:
        """More input of a session, which comes while it runs or while it waits; or the end of its input."""
        draw, size = self._draw, self._config.block_size
        number = draw.choice(sorted(self._room))
        room = self._room[number]
        if room < 2 or draw.boolean(0.15):
            del self._room[number]
            return Input(request=number)
        length = draw.boundary(1, min(room - 1, 2 * size + 2), (size - 1, size))
        outputs = draw.integer(1, min(room - length, size + 2))
        self._room[number] = room - length - outputs
        family = draw.integer(0, self._families)
        return Input(request=number, prompt=(Segment(family=family, length=length),), outputs=outputs)

    def _prompt(self, most: int) -> tuple[Segment, ...]:
        draw = self._draw
        segments: list[Segment] = []
        if self._added and draw.boolean(0.35):
            earlier = draw.choice(self._added[-8:])
            segments = list(earlier.prompt)
            more = draw.boundary(1, earlier.outputs + 2, (earlier.outputs, earlier.outputs - 1))
            segments.append(Segment(family=CONTINUATION, length=more))
            if draw.boolean(0.5):
                segments.append(self._segment(draw.integer(0, self._families)))
        else:
            segments.append(self._segment(draw.integer(0, self._families - 1)))
            if draw.boolean(0.4):
                segments.append(self._segment(draw.integer(10, 12)))
        return _cut(segments, most)

    def _segment(self, family: int) -> Segment:
        draw, size = self._draw, self._config.block_size
        blocks = draw.integer(0, max(1, self._config.length_limit // size - 1))
        length = max(1, blocks * size + draw.choice((0, 0, 1, -1, 2, draw.integer(0, size - 1))))
        return Segment(family=family, length=length)


def _cut(segments: list[Segment], most: int) -> tuple[Segment, ...]:
    """The segments, up to `most` tokens in all."""
    kept: list[Segment] = []
    for segment in segments[:16]:
        length = min(segment.length, most)
        if length <= 0:
            break
        kept.append(Segment(family=segment.family, length=length))
        most -= length
    return tuple(kept)

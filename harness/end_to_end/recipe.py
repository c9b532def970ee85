"""A recipe is everything that sequence number `index` of a campaign on engines depends on, except for the generators.

Sequences are those of the generator of step sequences, with what an engine can run held (`offers.py`), and fitted to
what the engine's layers turned out to be. At the end requests get steps to say more, for damage needs a few tokens
until it shows.
"""

from __future__ import annotations

from typing import cast

import msgspec

from harness.case.production_defaults import ProductionDefaults
from harness.case.sequence import Event, Layers, Pause, Resume, SequenceCase, Step
from harness.end_to_end.offers import offers_within
from harness.generators.draw import RandomDraw
from harness.generators.sequences.configurations import Pins
from harness.generators.sequences.events import STEPS
from harness.sequences.recipe import SequenceRecipe, sequence_at

DEFAULT: Layers = "mamba2"
"""The layers of an offer that names none."""

LAST_STEPS = 16
"""Steps after the last event of a drawn sequence."""


class LayerFacts(msgspec.Struct, frozen=True):
    """What layers of one kind are on an engine: `window` is the width of the convolution, `alignment` (tokens) that of
    the checkpoints that they export inside a prefill; None: they export none."""

    window: int
    alignment: int | None


class EngineRecipe(msgspec.Struct, frozen=True):
    """`pins` are the user's. `defaults` are those of the release, `layers` what its engines turned out to be: both are
    asked of a worker."""

    seed: int
    pins: Pins = Pins()
    steps: int = STEPS
    defaults: ProductionDefaults | None = None
    layers: dict[Layers, LayerFacts] = {}


def engine_sequence_at(recipe: EngineRecipe, index: int) -> SequenceCase:
    """Sequence `index` of a recipe: the same in every process."""
    offers = offers_within(recipe.pins)
    draw = RandomDraw(f"{recipe.seed}/engine/{index}")
    pins = draw.weighted(tuple((offer.pins, offer.often) for offer in offers))
    defaults = recipe.defaults
    if defaults is not None:  # an engine's plain run does not know where a turn of streaming input ends
        defaults = msgspec.structs.replace(defaults, streams=False)
    drawn = sequence_at(SequenceRecipe(recipe.seed, pins, recipe.steps, defaults), index)
    kind = pins.layers if pins.layers not in (None, "any") else DEFAULT
    return fitted(drawn, recipe.layers, cast(Layers, kind))


def fitted(case: SequenceCase, layers: dict[Layers, LayerFacts], kind: Layers = DEFAULT) -> SequenceCase:
    """The sequence for an engine with layers of one kind. A release takes no smaller budget than requests. Scripted
    drafters have no cache. A worker on the CPU cannot give up its memory: deeper sleep is a pause that clears the
    caches, as far as scheduling goes."""
    config = case.config
    known = layers.get(kind)
    fields: dict[str, object] = {
        "layers": kind,
        "requests": min(config.requests, config.budget),
        "drafter_block_size": None,
    }
    fields |= {} if known is None else _of_layers(known)
    events: list[Event] = [without_deep_sleep(event) for event in case.events]
    last = next((event for event in reversed(events) if isinstance(event, Pause | Resume)), None)
    if isinstance(last, Pause):
        events.append(Resume())
    events.append(Step(repeat=LAST_STEPS))
    return SequenceCase(config=msgspec.structs.replace(config, **fields), events=tuple(events))


def _of_layers(known: LayerFacts) -> dict[str, object]:
    return {"kernel": known.window, "checkpoint_alignment": known.alignment}


def without_deep_sleep(event: Event) -> Event:
    """The event; of a sleep that gives up memory the pause that schedules alike."""
    if isinstance(event, Pause) and event.level:
        return msgspec.structs.replace(event, level=None, clear_cache=True)
    return event

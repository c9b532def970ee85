"""A recipe is everything that sequence number `index` depends on, except for the generators themselves."""

from __future__ import annotations

import msgspec

from harness.case.production_defaults import ProductionDefaults
from harness.case.sequence import SequenceCase
from harness.generators.draw import RandomDraw
from harness.generators.sequences.configurations import Pins
from harness.generators.sequences.events import STEPS, draw_sequence


class SequenceRecipe(msgspec.Struct, frozen=True):
    """`pins` are the axes that are not drawn; sequences have at most `steps` engine steps. `defaults` are those of the
    release: with them only settings are drawn that a user of it can have."""

    seed: int
    pins: Pins = Pins()
    steps: int = STEPS
    defaults: ProductionDefaults | None = None


def sequence_at(recipe: SequenceRecipe, index: int) -> SequenceCase:
    """Sequence `index` of a recipe: the same in every process."""
    return draw_sequence(RandomDraw(f"{recipe.seed}/sequence/{index}"), recipe.pins, recipe.steps, recipe.defaults)

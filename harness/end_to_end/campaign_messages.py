"""Messages between a campaign and a process with engines, in addition to those of all workers of sequences."""

from __future__ import annotations

import msgspec

from harness.case.sequence import Layers, SequenceCase
from harness.end_to_end.recipe import EngineRecipe, LayerFacts
from harness.sequences.controls import Controls

STATES = "states"
"""The question which state of a failing sequence is wrong first."""


class DrawnOnEngines(msgspec.Struct, frozen=True):
    """The recipe of a campaign's sequences, and the controls that they are run with."""

    recipe: EngineRecipe
    controls: Controls


class AboutEngines(msgspec.Struct, frozen=True):
    """What the engines of a release are, by their layers, and the fixes that have no form for them."""

    layers: dict[Layers, LayerFacts]
    without_form: tuple[str, ...]


class WhichSequence(msgspec.Struct, frozen=True):
    """A failing sequence, and the controls under which it fails."""

    sequence: SequenceCase
    controls: Controls

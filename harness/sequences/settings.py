"""Settings are what a sequence campaign is asked to do; some of them say which campaign it is."""

from __future__ import annotations

from pathlib import Path

import msgspec

from harness.generators.sequences.events import SEQUENCE_GENERATOR_VERSION
from harness.sequences.controls import Controls
from harness.sequences.kernels import KernelChoice
from harness.sequences.recipe import SequenceRecipe


class SequenceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a campaign is asked to do. `sequences` or `seconds` end it; seconds are counted from when
    the release is loaded, and findings are shrunk after them. `kernels`: run bytes, too. `cases`: a folder for the
    kernel cases that the sequences amount to. `limit`: the most seconds for one sequence, None for the usual ones.
    `named_fixes`: fixes that the user asked for by name, and is told of if they change nothing."""

    target: str
    recipe: SequenceRecipe
    controls: Controls
    out: Path
    kernels: KernelChoice | None = None
    cases: Path | None = None
    sequences: int | None = None
    seconds: float | None = None
    workers: int = 1
    shrink: bool = True
    resume: bool = False
    fail_fast: bool = False
    limit: float | None = None
    named_fixes: tuple[str, ...] = ()


def identity_of(settings: SequenceSettings) -> dict[str, object]:
    """What must be equal for a campaign to go on where another stopped."""
    return {
        "target": settings.target,
        "recipe": msgspec.to_builtins(settings.recipe),
        "controls": msgspec.to_builtins(settings.controls),
        "kernels": msgspec.to_builtins(settings.kernels),
        "generator": SEQUENCE_GENERATOR_VERSION,
    }

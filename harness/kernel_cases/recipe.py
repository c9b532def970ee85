"""A case recipe is what a worker needs to draw kernel cases and to choose relations; also here are its answers."""

from __future__ import annotations

from typing import Literal

import msgspec

from harness.check.outcome import Outcome
from harness.engines.random import Recipe
from harness.engines.relations import RelationPolicy
from harness.kernels.targets.vllm.base_release import BaseRelease

EngineName = Literal["random", "hypothesis"]


class CaseRecipe(msgspec.Struct, frozen=True):
    """Everything that case `index` depends on, except for the generators, and the relations to check for it."""

    recipe: Recipe
    policy: RelationPolicy
    engine: EngineName = "random"


class CaseQuestion(msgspec.Struct, frozen=True):
    """How one case is judged; see harness.check.session.Session.check."""

    relations: tuple[str, ...] = ()
    most: int | None = None
    instrumented: bool = True


class JudgedCase(msgspec.Struct, frozen=True):
    """The outcome of a case, and the named situations (regimes) that it was in if a campaign drew it."""

    outcome: Outcome
    regimes: tuple[str, ...] = ()


class CaseAssignment(msgspec.Struct, frozen=True):
    """What a worker is started with. Each case says which of `checks` it wants. `base` is the base release of a
    checkout, with the changed files whose edits are watched."""

    target: str
    executor: str
    checks: tuple[str, ...]
    base: BaseRelease | None = None


ENCODER = msgspec.msgpack.Encoder()
JUDGED = msgspec.msgpack.Decoder(JudgedCase)
RECIPES = msgspec.msgpack.Decoder(CaseRecipe)
QUESTIONS = msgspec.msgpack.Decoder(CaseQuestion)

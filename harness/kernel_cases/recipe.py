"""A case recipe is what a worker needs to draw kernel cases and to choose relations; also here are its answers."""

from __future__ import annotations

from typing import Literal

import msgspec

from harness.case import Case
from harness.check.outcome import Outcome
from harness.engines.random import Recipe
from harness.engines.relations import RelationPolicy
from harness.kernels.targets.vllm.base_release import BaseRelease
from harness.regimes import regimes_of
from harness.subject.edits import EditedLines

EngineName = Literal["random", "hypothesis"]


class CaseRecipe(msgspec.Struct, frozen=True):
    """Everything that case `index` depends on, except for the generators, and the relations to check for it."""

    recipe: Recipe
    policy: RelationPolicy
    engine: EngineName = "random"


class CaseQuestion(msgspec.Struct, frozen=True):
    """How one case is judged; see harness.check.session.Session.check. `explain`: after the drawn cases of these
    `numbers` of a `recipe` (a CaseRecipe), which narrow its diagnosis (`harness.kernel_cases.diagnosing`)."""

    relations: tuple[str, ...] = ()
    most: int | None = None
    instrumented: bool = True
    explain: bool = False
    recipe: bytes = b""
    numbers: tuple[int, ...] = ()


class JudgedCase(msgspec.Struct, frozen=True):
    """The outcome of a case, and the named situations (regimes) that it was in if a campaign drew it: those that were
    judged, and those that were only in operations that were not. `edits` are the edited lines of a checkout that it
    ran, if it was explained."""

    outcome: Outcome
    regimes: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()
    edits: tuple[EditedLines, ...] = ()


def with_regimes(case: Case, outcome: Outcome) -> JudgedCase:
    """The outcome with the regimes of its case. What was not judged reaches nothing: a program counts as far as the
    first operation that was skipped or refused, or failed."""
    drawn = regimes_of(case)
    judged = sum(verdict.judged for verdict in outcome.verdicts)
    if judged == len(case.program):
        return JudgedCase(outcome, tuple(sorted(drawn)))
    reached = regimes_of(msgspec.structs.replace(case, program=case.program[:judged])) if judged else frozenset()
    return JudgedCase(outcome, tuple(sorted(reached)), tuple(sorted(drawn - reached)))


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

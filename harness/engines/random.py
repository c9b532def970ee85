"""An engine is where cases come from. This one: case `index` of a seed is a pure function of the campaign's settings.

Layouts are drawn once for every sixteen cases, which then share a target's context and its compiled variants. The
number of workers, and which of them draws a case, changes nothing.
"""

from __future__ import annotations

import functools
from typing import Literal

import msgspec

from harness.case import Case, Check, Domain, Execution, ProgramOrder
from harness.generators.cases import GENERATOR_VERSION, LayoutPlan, OperationName, Scale, draw_case, draw_layout
from harness.generators.draw import Draw, RandomDraw

CASES_PER_LAYOUT = 16


OrderPolicy = Literal["natural", "reversed", "shuffled", "vary"]
"""The program order of every case, or one drawn for each."""

CheckPolicy = tuple[Check, ...] | Literal["vary"]
"""What is watched in every case, or a choice for each: `memory` always, what costs more in a share of the cases."""


class Recipe(msgspec.Struct, frozen=True):
    """What a campaign draws: everything that case `index` depends on, beside the generators themselves.

    `domains` alternate from one layout to the next; `operations` is what programs are made of.
    """

    seed: int
    domains: tuple[Domain, ...]
    operations: tuple[OperationName, ...]
    scale: Scale
    order: OrderPolicy = "vary"
    checks: CheckPolicy = "vary"

    def domain(self, index: int) -> Domain:
        return self.domains[index // CASES_PER_LAYOUT % len(self.domains)]


def case_at(recipe: Recipe, index: int) -> Case:
    """Case `index` of a recipe."""
    domain = recipe.domain(index)
    block = index // CASES_PER_LAYOUT
    plan = _layout(recipe.seed, block, domain, recipe.scale)
    draw = RandomDraw(f"{recipe.seed}/case/{index}")
    case = draw_case(draw, plan, domain, recipe.operations, recipe.scale)
    return with_execution(draw, case, recipe.order, recipe.checks)


def with_execution(draw: Draw, case: Case, order: OrderPolicy, checks: CheckPolicy) -> Case:
    """A case with its execution. Drawn after everything else, so that other policies run the same cases."""
    drawn: ProgramOrder = draw.weighted((("natural", 4), ("reversed", 1), ("shuffled", 3)))
    seed = draw.integer(0, 2**32 - 1)
    watched: tuple[Check, ...] = draw.weighted(_WATCHED)
    chosen = drawn if order == "vary" else order
    execution = Execution(
        program_order=chosen,
        seed=seed if chosen == "shuffled" else 0,
        checks=watched if checks == "vary" else checks,
    )
    return msgspec.structs.replace(case, execution=execution)


_WATCHED: tuple[tuple[tuple[Check, ...], int], ...] = (
    (("memory",), 1),
    (("memory", "races"), 2),
    (("memory", "undefined", "races"), 1),
)


@functools.lru_cache(maxsize=4)
def _layout(seed: int, block: int, domain: Domain, scale: Scale) -> LayoutPlan:
    return draw_layout(RandomDraw(f"{seed}/layout/{block}"), domain, scale)


__all__ = ["CASES_PER_LAYOUT", "GENERATOR_VERSION", "Recipe", "Scale", "case_at"]

"""An engine is where cases come from. This one: case `index` of a seed is a pure function of the campaign's settings.

Layouts are drawn once for every sixteen cases, which then share a target's context and its compiled variants. The
number of workers, and which of them draws a case, changes nothing.
"""

from __future__ import annotations

import functools

import msgspec

from harness.case import Case, Domain
from harness.generators.cases import GENERATOR_VERSION, LayoutPlan, OperationName, Scale, draw_case, draw_layout
from harness.generators.draw import RandomDraw

CASES_PER_LAYOUT = 16


class Recipe(msgspec.Struct, frozen=True):
    """What a campaign draws: everything that case `index` depends on, beside the generators themselves.

    `domains` alternate from one layout to the next; `operations` is what programs are made of.
    """

    seed: int
    domains: tuple[Domain, ...]
    operations: tuple[OperationName, ...]
    scale: Scale

    def domain(self, index: int) -> Domain:
        return self.domains[index // CASES_PER_LAYOUT % len(self.domains)]


def case_at(recipe: Recipe, index: int) -> Case:
    """Case `index` of a recipe."""
    domain = recipe.domain(index)
    block = index // CASES_PER_LAYOUT
    plan = _layout(recipe.seed, block, domain, recipe.scale)
    draw = RandomDraw(f"{recipe.seed}/case/{index}")
    return draw_case(draw, plan, domain, recipe.operations, recipe.scale)


@functools.lru_cache(maxsize=4)
def _layout(seed: int, block: int, domain: Domain, scale: Scale) -> LayoutPlan:
    return draw_layout(RandomDraw(f"{seed}/layout/{block}"), domain, scale)


__all__ = ["CASES_PER_LAYOUT", "GENERATOR_VERSION", "Recipe", "Scale", "case_at"]

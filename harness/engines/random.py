"""An engine produces cases. Here, case `index` of a seed is a pure function of the campaign's settings.

A layout is drawn for every sixteen cases, which then share a target's context and its compiled variants. The number of
workers, and which of them draws a case, makes no difference.
"""

from __future__ import annotations

import functools
from typing import Literal

import msgspec

from harness.case import Case, Check, Domain, Execution, ProgramOrder, Warps
from harness.generators.cases import GENERATOR_VERSION, KindName, LayoutChoice, Scale, draw_case, draw_layout
from harness.generators.draw import Draw, RandomDraw

CASES_PER_LAYOUT = 16


OrderPolicy = Literal["natural", "reversed", "shuffled", "vary"]
"""The program order of every case, or one drawn for each."""

CheckPolicy = tuple[Check, ...] | Literal["vary"]
"""What is watched in every case, or a choice for each: `memory` and `races` always, `undefined` in every fourth."""


AddressPolicy = Literal["low", "high", "vary"]
"""Whether addresses have their highest bit set: never, always, or for every fourth layout."""


InterleavePolicy = int | Literal["vary"]
"""Programs in flight at a time in every case, or several in every eighth one."""

WarpPolicy = Warps | Literal["vary"]
"""Whether the warps of a program run in lockstep; independent in half of the cases whose programs are interleaved."""


class Policies(msgspec.Struct, frozen=True, kw_only=True):
    """How cases are executed: a choice for all of them, or one drawn for each."""

    order: OrderPolicy = "vary"
    checks: CheckPolicy = "vary"
    addresses: AddressPolicy = "vary"
    interleave: InterleavePolicy = "vary"
    warps: WarpPolicy = "vary"


class Recipe(Policies, frozen=True):
    """What a campaign draws: everything that case `index` depends on, except for the generators themselves.

    `domains` alternate from one layout to the next; programs are made of `operations`.
    """

    seed: int
    domains: tuple[Domain, ...]
    operations: tuple[KindName, ...]
    scale: Scale

    def domain(self, index: int) -> Domain:
        return self.domains[index // CASES_PER_LAYOUT % len(self.domains)]


def case_at(recipe: Recipe, index: int) -> Case:
    """Case `index` of a recipe."""
    domain = recipe.domain(index)
    block = index // CASES_PER_LAYOUT
    plan = _layout(recipe.seed, block, domain, recipe.scale)
    draw = RandomDraw(f"{recipe.seed}/case/{index}")
    case = draw_case(draw, plan, domain, recipe.operations, recipe.scale)
    # A target keeps addresses of a layout, so they are the same for all its cases.
    high = RandomDraw(f"{recipe.seed}/addresses/{block}").integer(1, 4) == 1
    return with_execution(draw, case, recipe, high=high)


def with_execution(draw: Draw, case: Case, recipe: Policies, *, high: bool) -> Case:
    """A case with its execution. Drawn after everything else, so that other policies run the same cases."""
    drawn: ProgramOrder = draw.weighted((("natural", 4), ("reversed", 1), ("shuffled", 3)))
    seed = draw.integer(0, 2**32 - 1)
    watched: tuple[Check, ...] = draw.weighted(_WATCHED)
    live, drawn_warps = draw.weighted(_SCHEDULES)
    interleave = live if recipe.interleave == "vary" else recipe.interleave
    warps = drawn_warps if recipe.warps == "vary" else recipe.warps
    if live:
        watched = _WATCHED[0][0]  # each combination is one more variant of a kernel to compile
    chosen = drawn if recipe.order == "vary" else recipe.order
    execution = Execution(
        program_order=chosen,
        seed=seed if chosen == "shuffled" or interleave > 1 or warps == "apart" else 0,
        warps=warps,
        interleave=interleave,
        checks=watched if recipe.checks == "vary" else recipe.checks,
        high_addresses=high if recipe.addresses == "vary" else recipe.addresses == "high",
    )
    return msgspec.structs.replace(case, execution=execution)


_SCHEDULES: tuple[tuple[tuple[int, Warps], int], ...] = (((0, "together"), 14), ((4, "together"), 1), ((4, "apart"), 1))

_WATCHED: tuple[tuple[tuple[Check, ...], int], ...] = (
    (("memory", "races"), 3),
    (("memory", "undefined", "races"), 1),
)


@functools.lru_cache(maxsize=4)
def _layout(seed: int, block: int, domain: Domain, scale: Scale) -> LayoutChoice:
    return draw_layout(RandomDraw(f"{seed}/layout/{block}"), domain, scale)


__all__ = ["CASES_PER_LAYOUT", "GENERATOR_VERSION", "Recipe", "Scale", "case_at"]

"""A variant is a kernel with its compile-time choices. Cases can be drawn for each variant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from harness.case import Case, ConvLayout, ConvState, Execution, Runner
from harness.engines.random import Recipe, case_at
from harness.generators.kinds.kind import KindName

BLOCKS = 4000
"""Number of layouts whose cases are searched: the rarest variant is in every fifth."""


class ConformanceVariant(NamedTuple):
    """A kernel as compiled for an operation, a runner and a conv layout (None: the layout does not matter)."""

    operation: KindName
    runner: Runner
    conv_layout: ConvLayout | None = None

    def of(self, case: Case) -> bool:
        """Whether a case is a single operation of this variant with rows, with a window if the layout matters."""
        if len(case.program) != 1 or not case.program[0].rows or case.program[0].runner != self.runner:
            return False
        if self.conv_layout is None:
            return True
        states = [state for _, state in case.layout.states()]
        return case.layout.conv_layout == self.conv_layout and any(isinstance(state, ConvState) for state in states)


_MOVING: Sequence[tuple[KindName, Runner]] = (
    ("postprocess", "V1"),
    ("postprocess", "V2"),
    ("precopy", "V1"),
    ("precopy", "V2"),
    ("postprocess-entry", "V1"),
    ("preprocess", "V1"),
    ("scalar-copy", "V1"),
)
_LAYOUTS: Sequence[ConvLayout] = ("SD", "DS")
_OTHERS: Sequence[KindName] = ("advance", "aligned-indices", "scatter-accepted", "fill-accepted")

VARIANTS: tuple[ConformanceVariant, ...] = (
    *(ConformanceVariant(operation, runner, conv_layout) for operation, runner in _MOVING for conv_layout in _LAYOUTS),
    *(ConformanceVariant(operation, "V2") for operation in _OTHERS),
)


def cases_of(variant: ConformanceVariant, count: int, seed: int = 21) -> list[Case]:
    """Small cases of a variant, from many layouts of both domains, always the same for a seed."""
    found: list[Case] = []
    recipe = Recipe(seed=seed, domains=("reachable", "total"), operations=(variant.operation,), scale="small")
    for block in range(BLOCKS):
        case = case_at(recipe, 16 * block + block % 16)
        if variant.of(case):
            found.append(msgspec.structs.replace(case, execution=Execution()))
            if len(found) == count:
                return found
    raise ValueError(f"only {len(found)} cases of {variant} with seed {seed}")

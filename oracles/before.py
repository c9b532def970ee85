"""Before is the state in which an operation starts: the memory of its case, and where everything lies in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from harness.case import Case, Layout
from harness.memory import ArraySpan, Image, MemoryPlan


@dataclass(frozen=True)
class Before:
    """Operation `index` of a case, about to run on memory that holds `image`."""

    case: Case
    plan: MemoryPlan
    index: int
    image: Image

    @property
    def layout(self) -> Layout:
        return self.case.layout

    @property
    def payload_seed(self) -> int:
        return self.case.contents.payload_seed

    @property
    def arrays(self) -> Mapping[str, ArraySpan]:
        """Where the operation's own arguments lie, by name."""
        return self.plan.arrays[self.index]

    def cell(self, group: int, slot: int, column: int) -> int:
        """The block id in a cell of a block table."""
        return self.image.cell(self.plan.base.table_cell(group, slot, column))

    def table_row(self, group: int, slot: int) -> list[int]:
        """All cells of a block-table row."""
        width = self.layout.table_columns
        row = self.image.view(self.plan.base.table_cell(group, slot, 0), 4 * width).view(np.int32)
        return [int(block) for block in row]

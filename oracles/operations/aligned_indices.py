"""The aligned indices of a batch (docs/domain.md, section 7)."""

from __future__ import annotations

from harness.case import AlignedIndices, InvalidCase
from harness.case.operations.results import ALIGNED_INDICES
from harness.oracles.before import Before
from harness.oracles.expected import Expected


def expect_aligned_indices(operation: AlignedIndices, before: Before) -> Expected:
    """Entries past the batch are unchanged. Raises InvalidCase if a column is outside the table row."""
    layout = before.layout
    columns = 1 + layout.num_spec
    ids: dict[int, int] = {}
    for group in range(len(layout.groups)):
        for i, row in enumerate(operation.rows):
            first = max((row.length - 1) // layout.block_size, 0)
            if first + columns > layout.table_columns:
                raise InvalidCase(f"batch row {i}: column {first + columns - 1} is outside the table row")
            for j in range(columns):
                entry = (group * layout.table_rows + i) * columns + j
                ids[entry] = before.cell(group, row.slot, first + j)
    return Expected(before.image.copy(), results={ALIGNED_INDICES: ids}, launches=bool(operation.rows))

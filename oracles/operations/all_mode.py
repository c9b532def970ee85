"""The result of the bookkeeping of `all` mode (docs/domain.md, section 7)."""

from __future__ import annotations

from harness.case import FRESH, AllMode
from harness.case.operations.results import COLUMNS, NO_COLUMN, PREVIOUS_COLUMN
from harness.oracles.before import Before
from harness.oracles.expected import Expected
from harness.oracles.operations.stage import both_sides


def expect_all_mode(operation: AllMode, before: Before) -> Expected:
    """The whole view is staged, with -1 for entries past the batch; no memory of the case changes."""
    layout, rows = before.layout, operation.rows
    staged = dict.fromkeys(range(layout.table_rows), FRESH)
    columns: dict[int, int] = {}
    for i, row in enumerate(rows):
        kept = None if row.resumed else row.state_column
        if kept is not None:
            staged[i] = kept
        columns[i] = NO_COLUMN if kept is None else kept
        if layout.num_spec > 0:
            decodes = row.scheduled == 1 + layout.num_spec
            columns[i] = (row.computed + row.scheduled - 1) // layout.block_size if decodes else NO_COLUMN
    for i, absent in enumerate(operation.absent):
        stays = absent.absence == "idle" and absent.state_column is not None
        columns[len(rows) + i] = absent.state_column if stays else NO_COLUMN  # type: ignore[assignment]
    return Expected(before.image.copy(), results={COLUMNS: columns, **both_sides({PREVIOUS_COLUMN: staged})})

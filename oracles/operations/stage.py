"""The result of staging, on the host and on the device (docs/domain.md, section 7)."""

from __future__ import annotations

from collections.abc import Mapping

from harness.case import Stage
from harness.case.operations.results import DEVICE, HOST, STAGED, request_name, staged_name
from harness.oracles.before import Before
from harness.oracles.expected import Expected


def both_sides(values: Mapping[str, Mapping[int, int]]) -> dict[str, Mapping[int, int]]:
    """The same entries for views and for copies."""
    return {staged_name(side, name): entries for side in (HOST, DEVICE) for name, entries in values.items()}


def expect_stage(operation: Stage, before: Before) -> Expected:
    """Entries past the batch are unchanged on both sides. A missing column is an error that names the request and
    leaves the device unchanged."""
    for i, row in enumerate(operation.rows):
        if row.state_column is None:
            views = frozenset(staged_name(HOST, name) for name in STAGED)
            return Expected(before.image.copy(), undefined=views, raises=request_name(i))
    staged = {name: {i: int(getattr(row, name)) for i, row in enumerate(operation.rows)} for name in STAGED}
    return Expected(before.image.copy(), results=both_sides(staged))

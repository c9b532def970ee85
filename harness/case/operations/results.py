"""Results are what the host sees of an operation in addition to the case's memory.

This file has their names, which the call of an operation and the expectation share.
"""

from __future__ import annotations

ACCEPTED_OUT = "accepted_out"
"""The result of a V1 postprocess: accepted counts by batch row."""

ACCEPTED_ON_HOST = "accepted on the host"
"""The runner's counts on the host, where the next step's preprocess reads them."""

ALIGNED_INDICES = "aligned_indices"
"""The target's buffer, `[groups, table_rows, 1 + num_spec]`, one entry after the other."""

COLUMNS = "columns"
"""The column that the runner remembers for each request, batch rows first, then the absent ones."""

NO_COLUMN = -2
"""In COLUMNS: none is remembered."""

PREVIOUS_COLUMN = "previous_column"
"""The staged view of `all` mode."""

STAGED = ("state_column", "scheduled", "computed", "draft")
"""The views that stage fills."""

HOST, DEVICE = "host", "device"


def staged_name(side: str, name: str) -> str:
    """The result that a staged view (HOST) or its copy (DEVICE) is."""
    return f"{side} {name}"


def request_name(row: int) -> str:
    """What the runner calls the request in batch row `row`."""
    return f"request-{row}"

"""Regimes of calls and batches: runners, sizes of batches, mappings."""

from __future__ import annotations

from harness.case import SKIP_ROW, Postprocess, Precopy
from harness.regimes.regime import Regime

REGIMES: tuple[Regime, ...] = (
    Regime("postprocess-v1", "a postprocess by batch rows", lambda f: f.launches(Postprocess, "V1")),
    Regime("postprocess-v2", "a postprocess through a mapping", lambda f: f.launches(Postprocess, "V2")),
    Regime("precopy-v1", "a precopy by batch rows", lambda f: f.launches(Precopy, "V1")),
    Regime("precopy-v2", "a precopy through a mapping", lambda f: f.launches(Precopy, "V2")),
    Regime("several-operations", "a program of more than one operation", lambda f: len(f.case.program) > 1),
    Regime(
        "no-requests",
        "an operation on an empty batch",
        lambda f: any(not operation.rows for operation in f.case.program),
        reachable=False,
    ),
    Regime(
        "one-request",
        "an operation on one request",
        lambda f: any(len(operation.rows) == 1 for operation in f.case.program),
    ),
    Regime(
        "many-requests",
        "an operation on eight or more requests",
        lambda f: any(len(operation.rows) >= 8 for operation in f.case.program),
    ),
    Regime(
        "sparse-mapping",
        "a mapping that leaves slots out",
        lambda f: any(slots and max(slots) >= len(slots) for slots in f.mappings),
    ),
    Regime(
        "permuted-mapping",
        "a mapping that is not in slot order",
        lambda f: any(slots != sorted(slots) for slots in f.mappings),
    ),
    Regime(
        "skipped-row",
        "a mapping with a row to skip",
        lambda f: any(row.slot == SKIP_ROW for operation in f.case.program for row in operation.rows),
    ),
)

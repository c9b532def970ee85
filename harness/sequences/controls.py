"""Controls are switches that change what a run drives: planted faults, and fixes of known issues.

A planted fault is a mistake that production code could make, made on purpose, so that a dead check is noticed. A fix
takes one known issue out, to show that it is the only cause of a violation.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Controls(msgspec.Struct, frozen=True, kw_only=True):
    """`faults` and `fixes` by name. `check_entries` off leaves poisoned cache entries to whoever reads them."""

    faults: tuple[str, ...] = ()
    fixes: tuple[str, ...] = ()
    check_entries: bool = True

    def change_engine(self, engine: Any) -> None:
        """Plant what belongs in the scheduler."""

    def change_worker(self, worker: Any) -> None:
        """Plant what belongs in the worker."""

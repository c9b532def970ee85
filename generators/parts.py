"""Parts of a drawn case besides its layout: tables, owners of blocks, and a program."""

from __future__ import annotations

from typing import NamedTuple

from harness.case import Operation

Tables = tuple[tuple[tuple[int, ...], ...], ...]
"""`tables[group][row]`: the leading cells of a block-table row."""


class Parts(NamedTuple):
    """`linked` has the same meaning as in a case."""

    tables: Tables
    owners: tuple[int, ...]
    program: tuple[Operation, ...]
    linked: bool = False

"""Parts are what a drawn case consists of besides its layout: tables, owners of blocks, and a program."""

from __future__ import annotations

from typing import Literal, NamedTuple

from harness.case import Operation

OperationName = Literal["postprocess", "precopy"]

Tables = tuple[tuple[tuple[int, ...], ...], ...]
"""`tables[group][row]`: the leading cells of a block-table row."""


class Parts(NamedTuple):
    tables: Tables
    owners: tuple[int, ...]
    program: tuple[Operation, ...]

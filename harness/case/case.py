"""A case is a layout, the contents of its memory, and a short program of operations. Plain data, JSON, versioned."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from harness.case.execution import Execution
from harness.case.layout import Layout
from harness.case.operations import Operation
from harness.case.problem import InvalidCase

CASE_VERSION: Literal[1] = 1

Domain = Literal["reachable", "total"]
Poison = Literal["A", "B"]
BlockId = Annotated[int, Meta(ge=0, le=2**24)]

FREE = -1
"""Owner of a block that belongs to no group: the null block and unused ones."""


class Contents(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What memory holds before the program runs.

    State bytes are drawn from `payload_seed`; gaps, padding and guards hold poison pattern `poison`.
    `tables[group][row]` are the leading cells of a table row (rows are request slots); cells past those given, and
    rows past the last one given, hold stale but in-range block ids drawn from `payload_seed`.
    `owners[block]` is the group that block `block` belongs to, or FREE.
    """

    payload_seed: Annotated[int, Meta(ge=0, le=2**32 - 1)]
    poison: Poison = "A"
    tables: Annotated[tuple[tuple[tuple[BlockId, ...], ...], ...], Meta(max_length=64)]
    owners: tuple[Annotated[int, Meta(ge=FREE, le=63)], ...]


class Case(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One input of the system under test.

    `linked`: operations of the V2 runner share the arrays that it keeps from step to step; otherwise each has its own.

    Raises InvalidCase if the parts contradict each other.
    """

    version: Literal[1] = CASE_VERSION
    domain: Domain
    layout: Layout
    contents: Contents
    program: Annotated[tuple[Operation, ...], Meta(min_length=1, max_length=64)]
    execution: Execution = Execution()
    linked: bool = False

    def __post_init__(self) -> None:
        layout, contents = self.layout, self.contents
        if len(contents.tables) != len(layout.groups):
            raise InvalidCase(f"{len(layout.groups)} groups but {len(contents.tables)} block tables")
        for g, table in enumerate(contents.tables):
            if len(table) > layout.table_rows:
                raise InvalidCase(f"table of group {g} has {len(table)} rows, more than {layout.table_rows}")
            for r, row in enumerate(table):
                if len(row) > layout.table_columns:
                    raise InvalidCase(f"table of group {g}, row {r} is longer than {layout.table_columns}")
                if row and max(row) >= layout.num_blocks:
                    raise InvalidCase(f"table of group {g}, row {r} names a block past {layout.num_blocks - 1}")
        if len(contents.owners) != layout.num_blocks:
            raise InvalidCase(f"{layout.num_blocks} blocks but {len(contents.owners)} owners")
        if contents.owners and max(contents.owners) >= len(layout.groups):
            raise InvalidCase("a block is owned by a group that does not exist")
        for i, operation in enumerate(self.program):
            slots = [row.slot for row in operation.rows]
            if len(slots) > layout.table_rows or (slots and max(slots) >= layout.table_rows):
                raise InvalidCase(f"operation {i} uses more than the {layout.table_rows} request slots")


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Case)


def encode_case(case: Case) -> bytes:
    """JSON of a case: the same case always gives the same bytes."""
    return _ENCODER.encode(case)


def decode_case(text: bytes) -> Case:
    """Read a case from JSON.

    Raises InvalidCase, with one line that names the place, for anything that is not a valid case.
    """
    try:
        return _DECODER.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidCase(str(error)) from error

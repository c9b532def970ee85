"""Parts are what a drawn case consists of besides its layout: tables, owners of blocks, and a program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from harness.case import Operation

OperationName = Literal[
    "postprocess",
    "precopy",
    "advance",
    "aligned-indices",
    "stage",
    "scalar-copy",
    "postprocess-entry",
    "scatter-accepted",
    "fill-accepted",
    "preprocess",
    "all-mode",
    "forward",
]
"""What a program may be made of. `forward` stands for programs of several steps, a forward pass in each."""

SUMMARIES: Mapping[OperationName, str] = {
    "postprocess": "after a step, accepted state moves to where the prefix cache expects it",
    "precopy": "before a step, running state moves to the column that the step works in",
    "advance": "where each request's state is and how far into it, then on to the new column (V2)",
    "aligned-indices": "the blocks of each request's running and speculative columns, for all groups",
    "stage": "the inputs of a postprocess go from the host to the device",
    "scalar-copy": "moves worked out on the host, done by one kernel that copies bytes",
    "postprocess-entry": "the V1 runner's call: bind, postprocess, bring the counts back",
    "scatter-accepted": "each request's accepted count becomes what it sampled",
    "fill-accepted": "every request's accepted count becomes one number",
    "preprocess": "the V1 runner's call before a step: forget who left, then copy",
    "all-mode": "the V1 runner's bookkeeping where states are kept for every block",
    "forward": "programs of several steps, with new states in between",
}
"""What each of them is, in a line (docs/domain.md, sections 3 to 7)."""

Tables = tuple[tuple[tuple[int, ...], ...], ...]
"""`tables[group][row]`: the leading cells of a block-table row."""


class Parts(NamedTuple):
    """`linked` as in a case."""

    tables: Tables
    owners: tuple[int, ...]
    program: tuple[Operation, ...]
    linked: bool = False

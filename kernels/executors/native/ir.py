"""A TTIR module as plain data: functions, regions, blocks, operations. The parser makes it, the emitter reads it."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.kernels.executors.native.source_lines import SourceLine
from harness.kernels.executors.native.types import Type


@dataclass(frozen=True)
class Successor:
    """A jump: the block's label and the values for its arguments."""

    label: str
    operands: tuple[str, ...]


@dataclass(frozen=True)
class Argument:
    """A named value that a block or function receives."""

    name: str
    type: Type


@dataclass(frozen=True)
class Operation:
    """One operation.

    `results` and `operands` are SSA names; `types` are the types in its text, in their order; `attributes` hold
    everything else in the text (an axis, a predicate, a constant's value).
    """

    name: str
    line: SourceLine | None
    results: tuple[str, ...] = ()
    operands: tuple[str, ...] = ()
    types: tuple[Type, ...] = ()
    attributes: dict[str, int | str] = field(default_factory=dict)
    arguments: tuple[Argument, ...] = ()
    successors: tuple[Successor, ...] = ()
    regions: tuple[Region, ...] = ()
    callers: tuple[SourceLine, ...] = ()
    """The lines of the calls that lead to `line`, innermost first."""


@dataclass(frozen=True)
class Block:
    """Operations that run one after another."""

    label: str
    arguments: tuple[Argument, ...]
    operations: tuple[Operation, ...]


@dataclass(frozen=True)
class Region:
    """Blocks of one nesting level; the first is the entry."""

    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Function:
    """A kernel after inlining. `name` is as in the source."""

    name: str
    arguments: tuple[Argument, ...]
    body: Region


def used_names(region: Region) -> set[str]:
    """The SSA names that an operation or a jump in `region` uses as an operand."""
    names: set[str] = set()
    for block in region.blocks:
        for operation in block.operations:
            names.update(operation.operands)
            for successor in operation.successors:
                names.update(successor.operands)
            for nested in operation.regions:
                names |= used_names(nested)
    return names

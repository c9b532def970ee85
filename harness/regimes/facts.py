"""Facts are what a case implies but does not state: which rows move, which blocks they read and write, how much.

They apply the rules of docs/domain.md, sections 3 to 5, once per case, so that the many predicates over a case
(`harness.regimes`) stay cheap and one line each.
"""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import NamedTuple

from harness.case import (
    FRESH,
    SKIP_ROW,
    Case,
    ConvState,
    Layout,
    Op,
    Operation,
    Postprocess,
    PostprocessEntry,
    PostprocessRow,
    Precopy,
    PrecopyRow,
    Preprocess,
    ScalarCopy,
    State,
    landing,
    state_extent,
)


class StateMove(NamedTuple):
    """One row that moves state: columns of its table row, and the accepted-token bias. `launch`: its operation."""

    launch: int
    slot: int
    source: int
    destination: int
    bias: int


class BlockMove(NamedTuple):
    """A move in one group's physical blocks. `spec_block` is where temporal states come from."""

    move: StateMove
    group: int
    source_block: int
    spec_block: int
    destination_block: int


class Copy(NamedTuple):
    """Bytes that one program moves: `rows` runs of `run` bytes, `shift` bytes to the left."""

    block_move: BlockMove
    state: State
    run: int
    rows: int
    shift: int


class LayoutFacts:
    """Facts of a layout alone, kept while cases share it."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.states = [(group, state) for (group, _, _), state in layout.states()]
        self.by_group = [[state for layer in group.layers for state in layer.states] for group in layout.groups]
        self.windows = [
            min((state.window for state in states if isinstance(state, ConvState)), default=0)
            for states in self.by_group
        ]
        self.has_temporal = [any(not isinstance(state, ConvState) for state in states) for states in self.by_group]
        self.pages = self._pages()
        self.farthest = max((state.block_stride for _, state in self.states), default=0) * (layout.num_blocks - 1)
        """Bytes from a state's first block to its last, at most."""
        self.regimes: frozenset[str] | None = None
        """Regimes that the layout alone decides; empty until they are first needed."""

    def _pages(self) -> list[tuple[int, int]]:
        """Bytes used and total bytes of every page: a block of one layer, or of all layers if they lie together."""
        pages = []
        for group in self.layout.groups:
            first = [layer.states[0] for layer in group.layers]
            together = len(first) > 1 and is_within_block(first[0], first[1])
            layers = [list(layer.states) for layer in group.layers]
            for states in [list(itertools.chain(*layers))] if together else layers:
                if len({state.buffer for state in states}) == 1:
                    pages.append((sum(map(state_extent, states)), states[0].block_stride))
        return pages


def is_within_block(one: State, other: State) -> bool:
    """Whether two states lie within one block stride of the same buffer."""
    return one.buffer == other.buffer and abs(one.offset - other.offset) < one.block_stride


_latest: LayoutFacts | None = None


def layout_facts(layout: Layout) -> LayoutFacts:
    """Facts of `layout`. Those of the last layout are cached, since many cases in a row share one."""
    global _latest  # noqa: PLW0603 - a cache of one entry, replaced as a whole
    known = _latest
    if known is None or known.layout is not layout:
        known = _latest = LayoutFacts(layout)
    return known


class Facts:
    """Facts of one case."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.layout = case.layout
        self.of_layout = layout_facts(case.layout)
        self.posts: list[PostprocessRow] = []
        self.pres: list[PrecopyRow] = []
        self.moves: list[StateMove] = []
        self.resets: list[PostprocessRow] = []
        self.still: list[PostprocessRow] = []
        """Postprocess rows for which no copy is needed."""
        for launch, operation in enumerate(case.program):
            self._add(launch, operation)

    def _add(self, launch: int, operation: Operation) -> None:
        if isinstance(operation, ScalarCopy):
            self.pres += operation.rows
            self.moves += [
                StateMove(launch, row.slot, row.source_column, row.destination_column, row.bias)
                for row in operation.rows
                if operation.moves(row)
            ]
        elif isinstance(operation, Precopy):
            for row in operation.rows:
                if row.slot != SKIP_ROW:
                    self.pres.append(row)
                    self._move(launch, row.slot, row.source_column, row.destination_column, row.bias)
        elif isinstance(operation, Postprocess | PostprocessEntry):
            for post in operation.rows:
                if post.slot != SKIP_ROW:
                    self._add_postprocess(launch, post)
        elif isinstance(operation, Preprocess):
            size = self.layout.block_size
            for pre in operation.rows:
                source, destination = pre.source_column(size), pre.destination_column(size)
                self._move(launch, pre.slot, source, destination, max(pre.accepted - 1, 0))

    def _move(self, launch: int, slot: int, source: int, destination: int, bias: int) -> None:
        if source not in (FRESH, destination):
            self.moves.append(StateMove(launch, slot, source, destination, bias))

    def _add_postprocess(self, launch: int, row: PostprocessRow) -> None:
        self.posts.append(row)
        landed = landing(row.running, row.accepted, self.layout.block_size)
        if landed is None:
            self.still.append(row)
            return
        if row.state_column == landed.column:
            self.resets.append(row)
            if landed.bias == 0:
                return
        self.moves.append(StateMove(launch, row.slot, row.state_column, landed.column, landed.bias))

    @cached_property
    def block_moves(self) -> list[BlockMove]:
        """Moves of every group whose cells the case gives; stale cells are not known here."""
        found = []
        for group, table in enumerate(self.case.contents.tables):
            for move in self.moves:
                row = table[move.slot] if move.slot < len(table) else ()
                if max(move.source + move.bias, move.destination) < len(row):
                    found.append(
                        BlockMove(move, group, row[move.source], row[move.source + move.bias], row[move.destination])
                    )
        return found

    @cached_property
    def copies(self) -> list[Copy]:
        """The copy of every program that moves something."""
        found = []
        for block_move in self.block_moves:
            bias = block_move.move.bias
            for state in self.of_layout.by_group[block_move.group]:
                if not isinstance(state, ConvState):
                    found.append(Copy(block_move, state, state.natural_bytes, 1, 0))
                elif bias < state.window:
                    kept = state.window - bias
                    if state.row_stride is None:
                        token = state.dim * state.item_size
                        found.append(Copy(block_move, state, kept * token, 1, bias * token))
                    else:
                        item = state.item_size
                        found.append(Copy(block_move, state, kept * item, state.dim, bias * item))
        return found

    @cached_property
    def past_steps(self) -> set[int]:
        """How far copies end after (before: negative) the nearest end of a loop step: bytes, or rows of DS copies."""
        return {_past_step(size, step) for size, step in {_loop(copy) for copy in self.copies}}

    @cached_property
    def mappings(self) -> list[list[int]]:
        """Slots of each V2 operation, skipped rows left out."""
        return [
            [row.slot for row in operation.rows if row.slot != SKIP_ROW]
            for operation in self.case.program
            if operation.runner == "V2"
        ]

    def launches(self, kind: type[Postprocess] | type[Precopy], runner: str) -> bool:
        """Whether the program has such an operation."""
        return any(isinstance(item, kind) and item.runner == runner for item in self.case.program)

    def operations(self, kind: type[Op]) -> list[Op]:
        """The operations of one kind."""
        return [item for item in self.case.program if isinstance(item, kind)]


def _loop(copy: Copy) -> tuple[int, int]:
    """The length of a kernel's loop and of one step: rows of a DS window, bytes of anything else."""
    return (copy.run, 8192) if copy.rows == 1 else (copy.rows, 1024)


def _past_step(size: int, step: int) -> int:
    return size - max(1, round(size / step)) * step

"""The arena of a kernel case: states as lanes, blocks as cells, what had to move and what is wrong.

The case says where everything lies, the oracle what has to move, and the evidence what was found. Places that evidence
names in words alone (races, refused accesses) are found by these words, which `harness.memory.describe` makes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from harness.case import Case, ConvState, operation_name, state_extent
from harness.case.case import FREE
from harness.check.outcome import Difference
from harness.memory import MemoryPlan, StatePlace, describe, describe_block, state_block
from harness.oracles.copies import StateCopy
from harness.reports.pictures.copies_due import expected_copies, plan_of
from harness.reports.pictures.numbers import numbers
from harness.reports.pictures.picture import Arrow, Cell, Lane, Mark, Panel, Picture, Point
from harness.reports.pictures.races import accesses
from harness.repro import Repro
from harness.text import counted

MOST_LANES = 8
MOST_BLOCKS = 9
"""What fits on a screen; what the finding is about comes first."""
MOST_TOKENS = 8
MOST_ARROWS = 12

BLOCK = re.compile(r"group (\d+), layer (\d+), (?:conv|temporal) state (\d+), (?:[a-z]+ )*block (\d+)")
PADDING = re.compile(rf"padding, \d+ bytes? (before|after) {BLOCK.pattern}")
GUARD = re.compile(r"(?:guard|no object), \d+ bytes? (before|after) buffer (\d+)")
FOUND_IN = re.compile(r"found those of block (\d+)")

StateKey = tuple[int, int, int]
"""Group, layer and number of a state."""


def arena(repro: Repro) -> Picture | None:
    """The picture of a kernel finding; None for one that is about no memory, such as an exception. Raises
    InvalidCase."""
    case, evidence = repro.case, repro.evidence
    plan = plan_of(case)
    wrong = _Wrong()
    for difference in evidence.differences:
        wrong.add(case, plan, difference)
    for text in (evidence.summary, *evidence.details):
        wrong.add_named(case, text)
    copies = expected_copies(case, plan)
    index = _operation(case, repro.signature.operation, copies, wrong)
    panels = [_blocks(case, plan, copies[index], wrong)]
    panels += [_bytes(case, plan, copies[index], evidence.differences)] if evidence.differences else []
    sentences = evidence.details or (evidence.summary,)
    said = [accesses(sentences), numbers([*sentences, *(one.contents for one in evidence.differences)])]
    panels += [panel for panel in said if panel is not None]
    if not wrong and len(panels) == 1 and not copies[index]:
        return None
    moves = counted(len(copies[index]), "copy", "copies")
    name = operation_name(case.program[index])
    title = f"Operation {index}, {name}: {moves} due; {evidence.summary}"
    return Picture(title, panels)


@dataclass
class _Wrong:
    """Where something is wrong: blocks of states, padding behind them, guards of buffers (the first or the last), and
    from which block of the same state the found bytes are."""

    blocks: dict[StateKey, set[int]] = field(default_factory=dict)
    padding: dict[StateKey, set[int]] = field(default_factory=dict)
    guards: dict[StateKey, set[int]] = field(default_factory=dict)
    sources: dict[tuple[StateKey, int], int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.blocks or self.padding or self.guards)

    @property
    def states(self) -> set[StateKey]:
        return {*self.blocks, *self.padding, *self.guards}

    def add(self, case: Case, plan: MemoryPlan, difference: Difference) -> None:
        """A difference, at its offset in the arena."""
        if difference.object not in ("conv", "temporal", "padding", "guard"):
            return
        at = state_block(case, plan, difference.offset)
        if at is not None:
            key = _key(at[0])
            self.blocks.setdefault(key, set()).add(at[1])
            source = FOUND_IN.search(difference.contents)
            if source is not None:
                self.sources[key, at[1]] = int(source[1])
            return
        near = min(plan.base.states, key=lambda place: _distance(case, place, difference.offset), default=None)
        if near is None:
            return
        last = case.layout.num_blocks - 1
        block = (difference.offset - near.start) // near.state.block_stride
        if 0 <= block <= last and difference.object == "padding":
            self.padding.setdefault(_key(near), set()).add(block)
        elif difference.object == "guard":
            self.guards.setdefault(_key(near), set()).add(0 if difference.offset < near.start else 1)

    def add_named(self, case: Case, text: str) -> None:
        """The place that a sentence names first."""
        text = text.partition(";")[0]
        padding, guard, found = PADDING.search(text), GUARD.search(text), BLOCK.search(text)
        if padding is not None:
            group, layer, number, block = map(int, padding.groups()[1:])
            before = padding[1] == "before"
            if before and not block:
                self.guards.setdefault((group, layer, number), set()).add(0)
            else:
                self.padding.setdefault((group, layer, number), set()).add(block - before)
        elif guard is not None:
            keys = [key for key, state in case.layout.states() if state.buffer == int(guard[2])]
            for key in keys[:1]:
                self.guards.setdefault(key, set()).add(guard[1] == "after")
        elif found is not None:
            group, layer, number, block = map(int, found.groups())
            self.blocks.setdefault((group, layer, number), set()).add(block)


def _key(place: StatePlace) -> StateKey:
    return place.group, place.layer, place.index


def _distance(case: Case, place: StatePlace, offset: int) -> int:
    """Bytes from a state's blocks to an offset that is in none of them."""
    end = place.block(case.layout.num_blocks - 1) + place.extent
    return place.start - offset if offset < place.start else max(0, offset - end)


def _operation(case: Case, name: str, copies: Sequence[Sequence[StateCopy]], wrong: _Wrong) -> int:
    """The operation that the finding is of: the first of this name that has to write what is wrong, else the last of
    this name."""
    named = [index for index, operation in enumerate(case.program) if operation_name(operation) == name]
    for index in named:
        if any(copy.destination_block in wrong.blocks.get(_key(copy.place), ()) for copy in copies[index]):
            return index
    return named[-1] if named else len(case.program) - 1


def _blocks(case: Case, plan: MemoryPlan, copies: Sequence[StateCopy], wrong: _Wrong) -> Panel:
    """Lanes of states, cells of blocks, guards on both sides."""
    layout = case.layout
    moved = {_key(copy.place) for copy in copies}
    places = sorted(plan.base.states, key=lambda one: (_key(one) not in wrong.states, _key(one) not in moved))
    shown = sorted(places[:MOST_LANES], key=_key)
    blocks = _shown_blocks(case, copies, wrong)
    columns = ["guard", *(f"blocks {first} to {last}" if last > first else f"block {first}" for first, last in blocks)]
    columns.append("guard")
    lanes, due, found = [], list[Arrow](), list[Arrow]()
    at = {block: number for number, (block, last) in enumerate(blocks, 1) if block == last}
    for number, place in enumerate(shown):
        key = _key(place)
        guards = wrong.guards.get(key, set())
        cells: list[Cell | None] = [_guard(0 in guards)]
        cells += [_block(case, place, run, copies, wrong) for run in blocks]
        cells.append(_guard(1 in guards))
        lanes.append(Lane(_name(place), cells))
        for copy in copies:
            ends = at.get(copy.source_block), at.get(copy.destination_block)
            if _key(copy.place) == key and ends[0] is not None and ends[1] is not None:
                bias = f"from token {copy.move.bias}" if copy.move.bias and isinstance(place.state, ConvState) else ""
                due.append(Arrow("due", Point(number, ends[0]), Point(number, ends[1]), bias))
        for block in sorted(wrong.blocks.get(key, ())):
            source = wrong.sources.get((key, block))
            if source in at and block in at:
                found.append(Arrow("found", Point(number, at[source]), Point(number, at[block])))
    rest = len(places) - len(shown)
    title = (
        f"{counted(len(shown), 'state')}{f' of {len(places)}' if rest else ''}, {counted(layout.num_blocks, 'block')}"
    )
    due = sorted(dict.fromkeys(due), key=lambda arrow: _cell_at(lanes, arrow.end).mark != "wrong")
    left = len(due) - MOST_ARROWS
    title += f"; {counted(left, 'more copy', 'more copies')} due between them" if left > 0 else ""
    return Panel(title, columns, lanes, [*due[:MOST_ARROWS], *found[:MOST_ARROWS]], frozenset({0, len(columns) - 1}))


def _cell_at(lanes: Sequence[Lane], at: Point) -> Cell:
    cell = lanes[at.lane].cells[at.column]
    assert cell is not None  # lanes of states are full
    return cell


def _shown_blocks(case: Case, copies: Sequence[StateCopy], wrong: _Wrong) -> list[tuple[int, int]]:
    """Runs of blocks, first and last, that each get a column: alone if the finding is about one."""
    total = case.layout.num_blocks
    if total <= MOST_BLOCKS:
        return [(block, block) for block in range(total)]
    alone: list[int] = []
    for block in _by_interest(case, copies, wrong):
        if block < total and block not in alone and len(_runs(sorted([*alone, block]), total)) <= MOST_BLOCKS:
            alone.append(block)
    return _runs(sorted(alone), total)


def _by_interest(case: Case, copies: Sequence[StateCopy], wrong: _Wrong) -> Iterator[int]:
    """Blocks, the most interesting first: what is wrong, with what had to arrive there and what did; then the others
    that something is copied to or from; then those in tables."""
    for key in sorted(wrong.states):
        for block in sorted(wrong.blocks.get(key, set()) | wrong.padding.get(key, set())):
            yield block
            yield from (copy.source_block for copy in copies if copy.destination_block == block)
            if (key, block) in wrong.sources:
                yield wrong.sources[key, block]
    for copy in copies:
        yield from (copy.source_block, copy.destination_block)
    yield from (block for table in case.contents.tables for row in table for block in row)


def _runs(alone: Sequence[int], total: int) -> list[tuple[int, int]]:
    """All blocks, first and last of each run; those of `alone`, in order, have one of their own."""
    runs: list[tuple[int, int]] = []
    begin = 0
    for block in (*alone, total):
        if begin < block:
            runs.append((begin, block - 1))
        if block < total:
            runs.append((block, block))
        begin = block + 1
    return runs


def _guard(wrong: bool) -> Cell:
    return Cell("!" if wrong else "", "wrong" if wrong else "edge", "written" if wrong else "guard")


def _block(case: Case, place: StatePlace, run: tuple[int, int], copies: Sequence[StateCopy], wrong: _Wrong) -> Cell:
    block, last = run
    key = _key(place)
    if last > block:
        return Cell("...", "idle", f"blocks {block} to {last}")
    mine = [copy for copy in copies if _key(copy.place) == key]
    owner = case.contents.owners[block]
    cells = _cells(case, place.group, block)
    text, mark = (cells[0] if cells else "-"), _no_mark(case, place.group, block, bool(cells))
    if any(copy.source_block == block for copy in mine):
        mark = "source"
    if any(copy.destination_block == block for copy in mine):
        mark = "destination"
    if block in wrong.blocks.get(key, ()):
        mark = "wrong"
    if not cells:
        text = "null block" if block == 0 else "free" if owner == FREE else f"of group {owner}"
    gap = place.state.block_stride - state_extent(place.state)
    bad = block in wrong.padding.get(key, ())
    tail = "!" if bad else "pad" if gap > 0 else ""
    return Cell(text, mark, "; ".join(cells), tail, "wrong" if bad else "edge")


def _no_mark(case: Case, group: int, block: int, named: bool) -> Mark:
    return "plain" if named or case.contents.owners[block] == group else "idle"


def _cells(case: Case, group: int, block: int) -> list[str]:
    """The table cells that lead to a block, of its own group."""
    return [
        f"slot {slot}, col {column}"
        for slot, row in enumerate(case.contents.tables[group])
        for column, held in enumerate(row)
        if held == block
    ]


def _name(place: StatePlace) -> str:
    kind = "conv" if isinstance(place.state, ConvState) else "temporal"
    return f"group {place.group}, layer {place.layer}\n{kind} state {place.index}"


def _bytes(case: Case, plan: MemoryPlan, copies: Sequence[StateCopy], differences: Sequence[Difference]) -> Panel:
    """The bytes of the first difference, and of the others in its block: tokens, elements or entries as columns."""
    first = differences[0]
    at = state_block(case, plan, first.offset)
    near = [one for one in differences if one == first or (at and state_block(case, plan, one.offset) == at)]
    columns: list[_Column] = []
    for difference in near:
        values = [getattr(difference, name).split() for name in ("before", "expected", "found")]
        parted: dict[str, _Column] = {}
        for byte, three in enumerate(zip(*values, strict=True)):
            name = _element(case, plan, difference.offset + byte, at)
            parted.setdefault(name, _Column(name)).add(*three)
        columns += parted.values()
    shown = columns[:MOST_TOKENS]
    lanes = [Lane("comes from", [Cell(_comes_from(copies, at, column.name)) for column in shown])]
    if not any(cell and cell.text for cell in lanes[0].cells):
        lanes.clear()
    lanes.append(Lane("before", [Cell(_hex(column.before)) for column in shown]))
    lanes.append(Lane("expected", [Cell(_hex(column.expected)) for column in shown]))
    lanes.append(Lane("found", [Cell(_hex(column.found), "wrong" if column.differs else "plain") for column in shown]))
    where = first.place if at is None else describe_block(case, *at)
    size = sum(difference.size for difference in near)
    given = sum(len(column.found) for column in shown)
    more = f"{given} of " if given < size else ""
    return Panel(f"{where}: {more}{counted(size, 'byte')}", [column.name for column in shown], lanes)


@dataclass
class _Column:
    """Bytes of one token, element or entry, in hex."""

    name: str
    before: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)

    def add(self, before: str, expected: str, found: str) -> None:
        self.before.append(before)
        self.expected.append(expected)
        self.found.append(found)

    @property
    def differs(self) -> bool:
        return self.expected != self.found


def _element(case: Case, plan: MemoryPlan, offset: int, at: tuple[StatePlace, int] | None) -> str:
    """What a byte belongs to: a token of a window (of one row, where rows lie apart), an element, or an entry."""
    if at is None:
        return describe(case, plan, offset).kind
    place, block = at
    state, within = place.state, offset - place.block(block)
    if not isinstance(state, ConvState):
        return f"element {within // state.item_size}"
    if state.row_stride is None:
        return f"token {within // (state.dim * state.item_size)}"
    row, rest = divmod(within, state.row_stride)
    return f"row {row}, token {rest // state.item_size}"


def _comes_from(copies: Sequence[StateCopy], at: tuple[StatePlace, int] | None, name: str) -> str:
    """Which block and token has to arrive in a token of a window; empty where none has to."""
    if at is None:
        return ""
    place, block = at
    copy = next((one for one in copies if one.place == place and one.destination_block == block), None)
    if copy is None:
        return ""
    token = re.search(r"token (\d+)", name)
    if token is None:
        return f"block {copy.source_block}"
    wanted = int(token[1]) + copy.move.bias
    window = place.state.window if isinstance(place.state, ConvState) else 0
    return f"block {copy.source_block}, token {wanted}" if wanted < window else ""


def _hex(values: Sequence[str]) -> str:
    """Bytes, as many as a cell shows."""
    return " ".join(values) if len(values) <= 8 else " ".join([*values[:7], "..."])

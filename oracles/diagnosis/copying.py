"""Copying by a rule: the copies that the moves of an operation give if one part of the specification is another.

A rule says which part: the table, row and column that a block id is read from, the bias, the size, the layout of a
window, the arithmetic of an address. The default of each part is that of docs/domain.md, section 5, so that the plain
rule makes the copies of `harness.oracles.copies`. Blocks and columns may be any number here: what may not be touched is
refused, as a checking executor does it.
"""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.case import ConvState
from harness.memory import Image, StatePlace
from harness.oracles.diagnosis.prediction import NEAR, Prediction, results_after
from harness.oracles.diagnosis.situation import Results, RowMove, Situation

_WIDTHS = tuple(1 << power for power in range(NEAR.bit_length() - 1, 0, -1))
"""Bytes of words of more than one byte, the widest first."""


@dataclass(frozen=True)
class Runs:
    """`runs` runs of `run_bytes` bytes, `stride` apart, from arena offset `source` to `destination`."""

    source: int
    destination: int
    run_bytes: int
    runs: int = 1
    stride: int = 0
    ordered: bool = False
    """Whether it reads each byte before it overwrites it, as shifts inside a block have to."""

    @property
    def overlaps(self) -> bool:
        """Whether it writes bytes that it reads as well, in no order."""
        distance = abs(self.source - self.destination)
        return not self.ordered and 0 < distance < self.span

    @property
    def span(self) -> int:
        """Bytes from the first to one past the last."""
        return (self.runs - 1) * self.stride + self.run_bytes


@dataclass(frozen=True)
class Shape:
    """The runs of one state relative to its blocks: bytes from the start of the source block to the first run."""

    skip: int
    run_bytes: int
    runs: int = 1
    stride: int = 0


def natural_shape(place: StatePlace, bias: int) -> Shape | None:
    """The runs of a state that moves with a bias; None for a window of which nothing is left."""
    state = place.state
    if not isinstance(state, ConvState):
        return Shape(0, state.natural_bytes)
    tokens = state.window - bias
    if tokens <= 0:
        return None
    if state.row_stride is None:
        unit = state.dim * state.item_size
        return Shape(bias * unit, tokens * unit)
    return Shape(bias * state.item_size, tokens * state.item_size, state.dim, state.row_stride)


def natural_source_column(place: StatePlace, move: RowMove) -> int:
    """A temporal state's column says how many tokens it has seen; a window has all of them in one block."""
    return move.move.source + (0 if isinstance(place.state, ConvState) else move.move.bias)


def natural_bias(place: StatePlace, move: RowMove) -> int:
    """The tokens that a window is advanced by; none for a temporal state."""
    return move.move.bias if isinstance(place.state, ConvState) else 0


@dataclass(frozen=True)
class Rule:
    """Each part has the specification's form unless it is given."""

    group: Callable[[int], int] = lambda group: group
    source_row: Callable[[RowMove], int] = lambda move: move.slot
    destination_row: Callable[[RowMove], int] = lambda move: move.slot
    source_column: Callable[[StatePlace, RowMove], int] = natural_source_column
    destination_column: Callable[[StatePlace, RowMove], int] = lambda place, move: move.move.destination
    bias: Callable[[StatePlace, RowMove], int] = natural_bias
    shape: Callable[[StatePlace, int], Shape | None] = natural_shape
    source_block: Callable[[StatePlace, RowMove, int], int] = lambda place, move, block: block
    source_distance: Callable[[int], int] = lambda distance: distance
    destination_distance: Callable[[int], int] = lambda distance: distance
    moves: Callable[[StatePlace, RowMove], bool] = lambda place, move: True


@dataclass
class _Accesses:
    """Bytes that are touched though they may not be, as (first, one past the last)."""

    spans: list[tuple[int, int]]


def predicted(
    situation: Situation,
    rule: Rule,
    moves: Sequence[RowMove] | None = None,
    results: Results | None = None,
    without_last: bool = False,
) -> Prediction:
    """Memory after the copies of a rule, for `moves` (default: those of the operation) and with the arguments that the
    operation writes as they must be. `without_last`: the copy that is listed last, of no bytes or more, is left out."""
    outside = _Accesses([])
    copies = list(_copies(situation, rule, situation.moves if moves is None else moves, outside))
    if without_last:
        copies = copies[:-1]
    copies = [copy for copy in copies if copy.run_bytes and copy.runs > 0]
    return carried_out(situation, copies, outside.spans, results_after(situation) if results is None else results)


def _copies(situation: Situation, rule: Rule, moves: Iterable[RowMove], outside: _Accesses) -> Iterable[Runs]:
    for move in moves:
        for place in situation.before.plan.base.states:
            if not rule.moves(place, move):
                continue
            group = rule.group(place.group)
            shape = rule.shape(place, rule.bias(place, move)) or Shape(0, 0)
            source_block = _cell(situation, group, rule.source_row(move), rule.source_column(place, move), outside)
            column = rule.destination_column(place, move)
            destination_block = _cell(situation, group, rule.destination_row(move), column, outside)
            source_block = rule.source_block(place, move, source_block)
            stride = place.state.block_stride
            source = place.start + rule.source_distance(source_block * stride) + shape.skip
            destination = place.start + rule.destination_distance(destination_block * stride)
            ordered = source_block == destination_block
            yield Runs(source, destination, max(shape.run_bytes, 0), shape.runs, shape.stride, ordered)


def _cell(situation: Situation, group: int, row: int, column: int, outside: _Accesses) -> int:
    """A block id; 0 where the access is refused."""
    plan = situation.before.plan.base
    offset = plan.table_cell(group, row, column)
    if any(start <= offset < start + plan.table_bytes for start in plan.tables):
        return situation.before.image.cell(offset)
    outside.spans.append((offset, offset + 4))
    return 0


@dataclass
class _Memory:
    """Memory while copies are made. `open` are bytes that may hold anything afterwards, `vague` those of them that a
    refused access leaves open, and `written` those that a copy has stored to."""

    image: Image
    open: Image
    vague: Image
    written: Image

    @classmethod
    def at_first(cls, situation: Situation) -> _Memory:
        image = base_image(situation)
        opened, vague, written = (image.like(np.zeros(len(image.data), dtype=np.uint8)) for _ in range(3))
        return cls(image, opened, vague, written)


def carried_out(
    situation: Situation, copies: Sequence[Runs], outside: Sequence[tuple[int, int]], results: Results
) -> Prediction:
    """Memory after copies that all read before any of them writes, with what is refused left out."""
    spans, seams = list(outside), set[int]()
    after = _Memory.at_first(situation)
    nothing = after.image.like(np.zeros(len(after.image.data), dtype=np.uint8))
    before = _Memory(situation.before.image, nothing, nothing, nothing)
    raced: list[tuple[int, int]] = []
    for copy in copies:
        _make(situation, copy, before, after, spans, seams, raced)
    for copy in copies:
        if copy.overlaps:
            raced.append((max(copy.source, copy.destination), min(copy.source, copy.destination) + copy.span))
            _unsettle(after.open, (copy.destination, copy.destination + copy.span))
    for span, fed in _read_and_written(copies):
        raced.append(span)
        _unsettle(after.open, fed)
    for span in raced:
        _unsettle(after.open, span)
    vague = after.vague.data.view(np.bool_)
    settled: tuple[Image, ...] = ()
    if raced:
        ordered = _one_after_another(situation, copies)
        settled, vague = (after.image, ordered.image), vague | ordered.vague.data.view(np.bool_)
    return Prediction(
        after.image,
        results,
        after.open.data.view(np.bool_),
        (),
        tuple(spans),
        tuple(raced),
        settled=settled,
        vague=vague,
        seams=sorted(seams),
    )


def _one_after_another(situation: Situation, copies: Sequence[Runs]) -> _Memory:
    """Memory after copies of which each reads what those before it left."""
    memory = _Memory.at_first(situation)
    for copy in copies:
        _make(situation, copy, memory, memory, [], set(), [])
    return memory


def _make(
    situation: Situation,
    copy: Runs,
    before: _Memory,
    after: _Memory,
    spans: list[tuple[int, int]],
    seams: set[int],
    raced: list[tuple[int, int]],
) -> None:
    """Make a copy, which reads in `before` and writes in `after`. Bytes that may not be touched are added to `spans`,
    borders that a word of it may lie across to `seams`, and bytes that another copy has stored to, and that this one
    gives another value, to `raced`."""
    image = situation.before.image
    may_read, may_write = (image.like(mask.view(np.uint8)) for mask in situation.masks)
    if not _crosses(copy, situation) and _all_at_once(copy, before, may_read, may_write, after, raced):
        return
    size = copy.run_bytes
    for run in range(copy.runs):
        source, destination = copy.source + run * copy.stride, copy.destination + run * copy.stride
        held, held_ok = _part(before.image, may_read, source, size)
        _, store_ok = _part(after.image, may_write, destination, size)
        if not held_ok.all():
            spans += _spans(source, ~held_ok)
        if not store_ok.all():
            spans += _spans(destination, ~store_ok)
        fed = _part(before.vague, may_read, source, size)[0].view(np.bool_)
        vague = fed | ~held_ok | _near(~store_ok) | _near(~held_ok)
        for start in (source, destination):
            for seam in _seams_inside(situation, start, size):
                word = _word_across(seam - start, start, source ^ destination, size)
                if word is not None:
                    seams.add(seam)
                    vague[word] = True
        _store(after, raced, destination, held, store_ok, vague)


def _crosses(copy: Runs, situation: Situation) -> bool:
    """Whether a run of a copy has bytes of two objects that touch."""
    seams = situation.seams
    if not len(seams):
        return False
    starts = np.array([[copy.source], [copy.destination]]) + np.arange(copy.runs, dtype=np.int64) * copy.stride
    first, last = np.searchsorted(seams, starts, "right"), np.searchsorted(seams, starts + copy.run_bytes, "left")
    return bool((first < last).any())


def _seams_inside(situation: Situation, start: int, size: int) -> list[int]:
    """The borders between objects that have bytes of a run on both sides."""
    seams = situation.seams
    inside = slice(np.searchsorted(seams, start, "right"), np.searchsorted(seams, start + size, "left"))
    return [int(seam) for seam in seams[inside]]


def _word_across(place: int, start: int, apart: int, size: int) -> slice | None:
    """The widest word of a run of `size` bytes at `start` that lies across its byte `place`, as a part of the run; None
    if there is none. Words are at multiples of their width, where they are read and where they are written: `apart` has
    a bit for each in which these addresses differ."""
    for width in _WIDTHS:
        first = place - (start + place) % width
        if apart % width == 0 and 0 <= first < place and first + width <= size:
            return slice(first, first + width)
    return None


def _all_at_once(
    copy: Runs, before: _Memory, may_read: Image, may_write: Image, after: _Memory, raced: list[tuple[int, int]]
) -> bool:
    """Make a copy whose bytes may all be touched; nothing happens, and the answer is False, for any other."""
    source = (copy.source, copy.runs, copy.run_bytes, copy.stride)
    destination = (copy.destination, copy.runs, copy.run_bytes, copy.stride)
    try:
        if not may_read.rows(*source).all() or not may_write.rows(*destination).all():
            return False
    except IndexError:
        return False
    marks, held = after.written.rows(*destination), before.image.rows(*source).copy()
    vague, stored = before.vague.rows(*source).copy(), after.vague.rows(*destination)
    # Two stores of one value do no harm, and are no race.
    twice = (marks > 0) & ((after.image.rows(*destination) != held) | (vague > 0) | (stored > 0))
    if twice.any():
        raced.append((copy.destination, copy.destination + copy.span))
        after.open.rows(*destination)[twice] = 1
    marks[:] = 1
    after.image.rows(*destination)[:] = held
    stored[:] |= vague
    after.open.rows(*destination)[:] |= vague
    return True


def base_image(situation: Situation) -> Image:
    """Memory before the operation, with the arguments that it writes as they must be afterwards."""
    image = situation.before.image.copy()
    for span in situation.expected.arrays:
        image.view(span.start, span.size)[:] = situation.expected.image.view(span.start, span.size)
    return image


def _part(image: Image, allowed: Image, start: int, size: int) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Bytes of an image, 0 where they may not be touched or are not part of it; and which may be touched."""
    try:
        may = allowed.view(start, size).astype(bool)
        return np.where(may, image.view(start, size), 0).astype(np.uint8), may
    except IndexError:
        pass
    values, may = np.zeros(size, np.uint8), np.zeros(size, bool)
    for first, data in image.segments:
        low, high = max(first, start), min(first + len(data), start + size)
        if low < high:
            allowed_here = allowed.view(low, high - low).astype(bool)
            may[low - start : high - start] = allowed_here
            values[low - start : high - start] = np.where(allowed_here, data[low - first : high - first], 0)
    return values, may


def _spans(start: int, chosen: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """The runs of chosen bytes."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], chosen.view(np.int8), [0]])))
    return [(start + int(first), start + int(last)) for first, last in zip(edges[::2], edges[1::2], strict=True)]


def _store(
    after: _Memory,
    raced: list[tuple[int, int]],
    destination: int,
    held: NDArray[np.uint8],
    store_ok: NDArray[np.bool_],
    vague: NDArray[np.bool_],
) -> None:
    """Store what may be stored; vague bytes may hold anything afterwards."""
    for first, last in _spans(0, store_ok):
        part, here = slice(first, last), (destination + first, last - first)
        marks, stored = after.written.view(*here), after.vague.view(*here)
        twice = (marks > 0) & ((after.image.view(*here) != held[part]) | vague[part] | (stored > 0))
        if twice.any():
            raced.append((destination + first, destination + last))
            after.open.view(*here)[twice] = 1
        marks[:] = 1
        after.image.view(*here)[:] = held[part]
        stored[:] |= vague[part].view(np.uint8)
        after.open.view(*here)[:] |= vague[part].view(np.uint8)


def _near(chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Bytes up to NEAR from a chosen one."""
    near = chosen.copy()
    for distance in range(1, min(NEAR, len(chosen))):
        near[distance:] |= chosen[:-distance]
        near[:-distance] |= chosen[distance:]
    return near


def _read_and_written(copies: Sequence[Runs]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """The bytes that one copy reads and another one writes, and those that the first of them writes with what it has
    read."""
    reads = sorted((copy.source, copy.source + copy.span, i) for i, copy in enumerate(copies))
    firsts = [first for first, _, _ in reads]
    longest = max((copy.span for copy in copies), default=0)
    found: list[tuple[tuple[int, int], tuple[int, int]]] = []
    for number, copy in enumerate(copies):
        low, high = copy.destination, copy.destination + copy.span
        # Those that begin before the first of these end before `low`. Looking at all would be slow in large batches.
        near = slice(bisect.bisect_right(firsts, low - longest), bisect.bisect_left(firsts, high))
        for _, last, reader in reads[near]:
            if reader != number and last > low:
                shift = copies[reader].destination - copies[reader].source
                found += [(shared, (shared[0] + shift, shared[1] + shift)) for shared in _shared(copies[reader], copy)]
    return found


def _shared(reader: Runs, writer: Runs) -> list[tuple[int, int]]:
    """The bytes that one copy reads and another one writes. Rows of windows may lie between each other."""
    if reader.runs == writer.runs == 1:
        last = min(reader.source + reader.span, writer.destination + writer.span)
        return [(max(reader.source, writer.destination), last)]
    read, written = _offsets(reader.source, reader), _offsets(writer.destination, writer)
    both = np.intersect1d(read, written)
    if not len(both):
        return []
    cuts = np.flatnonzero(np.diff(both) > 1)
    firsts, lasts = both[np.concatenate([[0], cuts + 1])], both[np.concatenate([cuts, [len(both) - 1]])]
    return [(int(first), int(last) + 1) for first, last in zip(firsts, lasts, strict=True)]


def _offsets(start: int, copy: Runs) -> NDArray[np.int64]:
    """The arena offset of each byte of a copy's runs, of which the first begins at `start`."""
    rows = start + np.arange(copy.runs, dtype=np.int64) * copy.stride
    return (rows[:, None] + np.arange(copy.run_bytes, dtype=np.int64)).ravel()


def _unsettle(unsettled: Image, span: tuple[int, int]) -> None:
    """Leave open what bytes hold; those of no object of the case do not matter."""
    first, last = span
    with contextlib.suppress(IndexError):
        unsettled.view(first, last - first)[:] = 1

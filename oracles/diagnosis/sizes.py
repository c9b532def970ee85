"""Deviations of what is moved of a state: the bias of windows, columns by bias, sizes, the layout of a window."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator

import numpy as np

from harness.case import ConvState
from harness.memory import Image, StatePlace
from harness.oracles.copies import StateCopy
from harness.oracles.diagnosis.copying import (
    Rule,
    Shape,
    base_image,
    natural_bias,
    natural_shape,
    natural_source_column,
    predicted,
)
from harness.oracles.diagnosis.deviation import Deviation
from harness.oracles.diagnosis.prediction import Prediction, results_after
from harness.oracles.diagnosis.situation import RowMove, Situation
from harness.oracles.diagnosis.tables import by_rule
from harness.text import counted

SURPLUS = 4096
"""How far a size by stride is tried, in addition to the whole stride: production code may limit it."""
MOST_SURPLUS = 1 << 22
"""A longer surplus is not tried: such a copy would run for minutes."""
SHARES = (16, 8, 4, 2)
"""Numbers of tiles that share a copy."""

TILES = (1024, 2048, 4096, 8192, 16384)
"""Bytes of a tile, each of which may lose its own tail."""
BY_CHANCE = 3
"""Bytes at an end of a part that did not arrive may be equal by chance: rarely more than this."""
WORD = 8
"""Bytes of a word of which a tail may be lost, where nothing narrower has to be taken."""


def _conv(place: StatePlace) -> bool:
    return isinstance(place.state, ConvState)


def _window_bias(change: Callable[[int], int]) -> Rule:
    return Rule(bias=lambda place, move: change(natural_bias(place, move)) if _conv(place) else 0)


def _temporal_columns(change: Callable[[int], int]) -> Rule:
    return Rule(source_column=lambda place, move: move.move.source + (0 if _conv(place) else change(move.move.bias)))


def _stretched(extra: Callable[[StatePlace], int]) -> Rule:
    def shape(place: StatePlace, bias: int) -> Shape | None:
        natural = natural_shape(place, bias)
        if natural is None or _conv(place) or extra(place) > MOST_SURPLUS:
            return natural
        return Shape(natural.skip, natural.run_bytes + extra(place))

    return Rule(shape=shape)


def _as_sd(place: StatePlace, bias: int) -> Shape | None:
    """A window in DS layout as if it were in SD layout: one run."""
    state = place.state
    if not isinstance(state, ConvState) or state.row_stride is None:
        return natural_shape(place, bias)
    unit = state.dim * state.item_size
    return Shape(bias * unit, (state.window - bias) * unit) if bias < state.window else None


def _as_ds(place: StatePlace, bias: int) -> Shape | None:
    """A window in SD layout as if it were in DS layout: a run for each row."""
    state = place.state
    if not isinstance(state, ConvState) or state.row_stride is not None:
        return natural_shape(place, bias)
    row = state.window * state.item_size
    tokens = state.window - bias
    return Shape(bias * state.item_size, tokens * state.item_size, state.dim, row) if tokens > 0 else None


def _tokens(more: int) -> Rule:
    """Windows of which another number of tokens moves, from the right place."""

    def shape(place: StatePlace, bias: int) -> Shape | None:
        natural, state = natural_shape(place, bias), place.state
        if natural is None or not isinstance(state, ConvState):
            return natural
        unit = state.item_size if state.row_stride is not None else state.dim * state.item_size
        return Shape(natural.skip, natural.run_bytes + more * unit, natural.runs, natural.stride)

    return Rule(shape=shape)


def _first_row_only(place: StatePlace, bias: int) -> Shape | None:
    natural = natural_shape(place, bias)
    return None if natural is None else Shape(natural.skip, natural.run_bytes)


def _whole_window(place: StatePlace, bias: int) -> Shape | None:
    """The whole window, starting at the bias or not."""
    return natural_shape(place, 0)


def _as_runs(situation: Situation) -> list[StateCopy]:
    """The copies that must happen; runs without gaps between them are one run."""
    return [
        dataclasses.replace(copy, run_bytes=copy.span, runs=1, run_stride=0)
        if copy.runs > 1 and copy.run_bytes == copy.run_stride
        else copy
        for copy in situation.expected.copies
    ]


def _cut(keep: Callable[[StateCopy], int]) -> Callable[[Situation], Iterator[Prediction]]:
    """All copies as they must be, but each run only as far as `keep` says."""

    def predict(situation: Situation) -> Iterator[Prediction]:
        copies = _as_runs(situation)
        if not copies:
            return
        image = base_image(situation)
        for copy in copies:
            kept = max(0, min(keep(copy), copy.run_bytes))
            if kept:
                rows = situation.before.image.rows(copy.source, copy.runs, copy.run_bytes, copy.run_stride)
                shown = rows[:, :kept].copy()
                image.rows(copy.destination, copy.runs, copy.run_bytes, copy.run_stride)[:, :kept] = shown
        yield Prediction(image, results_after(situation))

    return predict


def _tail_lost(situation: Situation) -> Iterator[Prediction]:
    """The bytes after the last whole word, counted from an aligned destination or from the start of a copy."""
    wholes = (_whole(WORD), _whole(WORD, aligned=True), _widest_words, functools.partial(_widest_words, aligned=True))
    for whole in wholes:
        yield from _cut(whole)(situation)
        yield from _cut(functools.partial(_of_single_runs, whole))(situation)
        yield from _cut(functools.partial(_between_blocks, whole))(situation)
    for tile in TILES:
        yield from _each_tile(situation, tile)


def _each_tile(situation: Situation, tile: int) -> Iterator[Prediction]:
    """The same where each tile of a long copy is copied by words of its own."""
    copies = [copy for copy in _as_runs(situation) if copy.runs == 1]
    if all(copy.run_bytes <= tile for copy in copies):
        return
    image, before = situation.expected.image.copy(), situation.before.image
    for copy in copies:
        for first in range(0, copy.run_bytes, tile):
            size = min(tile, copy.run_bytes - first)
            part = dataclasses.replace(
                copy, source=copy.source + first, destination=copy.destination + first, run_bytes=size
            )
            kept = max(_widest_words(part, aligned=True), 0)
            lost = (part.destination + kept, size - kept)
            image.view(*lost)[:] = before.view(*lost)
    yield Prediction(image, results_after(situation))


def _of_single_runs(keep: Callable[[StateCopy], int], copy: StateCopy) -> int:
    """Windows of several runs may be copied by elements, without words."""
    return keep(copy) if copy.runs == 1 else copy.run_bytes


def _between_blocks(keep: Callable[[StateCopy], int], copy: StateCopy) -> int:
    """And so may windows that shift inside their block."""
    apart = copy.source_block != copy.destination_block or copy.move.bias == 0
    return _of_single_runs(keep, copy) if apart else copy.run_bytes


def _widest_words(copy: StateCopy, aligned: bool = False) -> int:
    """As far as whole words go, of the widest that source and destination allow together."""
    return _whole_words(copy, _widest_word(copy), aligned=aligned)


def _widest_word(copy: StateCopy) -> int:
    """The bytes of the widest words at whose multiples source and destination may be together."""
    apart = copy.source ^ copy.destination
    return next(word for word in (WORD, 4, 2, 1) if apart & (word - 1) == 0)


def _whole_words(copy: StateCopy, word: int, *, aligned: bool) -> int:
    """The bytes of a run up to its last whole word; `aligned`: words are at multiples of their size in memory, and what
    is before the first of them is copied as well."""
    head = -copy.destination % word if aligned else 0
    return copy.run_bytes if head >= copy.run_bytes else copy.run_bytes - (copy.run_bytes - head) % word


def _rounded_down(situation: Situation) -> Iterator[Prediction]:
    """Tiles share the whole words of a copy, each as many as a division that rounds down gives: of fewer words than
    tiles none, or of all those that are left. Only where source and destination are aligned alike is it copied by
    words."""
    for shares in SHARES:
        for rest in (False, True):
            for temporal in (False, True):
                image, some = situation.expected.image.copy(), False
                for copy in _as_runs(situation):
                    if temporal and isinstance(copy.place.state, ConvState):
                        continue
                    for first, size in _words(copy):
                        words = size // WORD
                        kept = words // shares * shares if rest else words if words >= shares else 0
                        lost = (first + kept * WORD, (words - kept) * WORD)
                        image.view(*lost)[:] = situation.before.image.view(*lost)
                        some |= kept < words
                if some:
                    form = f"{shares}{' rest' if rest else ''}{' temporal' if temporal else ''}"
                    yield Prediction(image, results_after(situation), form=form)


def _words(copy: StateCopy) -> Iterator[tuple[int, int]]:
    """The whole words of each run, counted from an aligned destination: arena offset and bytes."""
    if (copy.source ^ copy.destination) % WORD:
        return
    for run in range(copy.runs):
        start = copy.destination + run * copy.run_stride
        head = min(-start % WORD, copy.run_bytes)
        yield start + head, (copy.run_bytes - head) // WORD * WORD


def _part_lost(situation: Situation) -> Iterator[Prediction]:
    """Copies of which one contiguous part does not arrive; which part, what was found decides. Of at least one of them
    the rest did arrive."""
    before, found = situation.before.image, situation.found
    image, some = situation.expected.image.copy(), False
    lost: list[str] = []
    for copy in _as_runs(situation):
        if copy.runs != 1 or _overlaps(copy):
            continue
        source = before.view(copy.source, copy.run_bytes)
        old = before.view(copy.destination, copy.run_bytes)
        (wrong,) = np.nonzero(found.view(copy.destination, copy.run_bytes) != source)
        if not len(wrong):
            continue
        part = slice(int(wrong[0]), int(wrong[-1]) + 1)
        image.view(copy.destination, copy.run_bytes)[part] = old[part]
        lost.append(f"{_part_in_words(part, copy.run_bytes)} for block {copy.destination_block}")
        some |= bool(
            (source[: part.start] != old[: part.start]).any() or (source[part.stop :] != old[part.stop :]).any()
        )
    if some:
        more = f", and parts of {counted(len(lost) - 1, 'more copy', 'more copies')}" if len(lost) > 1 else ""
        yield Prediction(image, results_after(situation), fitted=f"{lost[0]}{more}")


def _part_in_words(part: slice, size: int) -> str:
    """Which part of a copy of `size` bytes did not arrive: its bytes, and which of equal parts they are, if they are
    one. A byte or two at its ends may be equal by chance."""
    first, length = int(part.start), int(part.stop - part.start)
    words = f"bytes {first} to {first + length - 1} of {size}"

    def off(count: int) -> float:
        """By how many bytes the ends are off those of the nearest of so many parts."""
        unit = size / count
        number = round(first / unit)
        return max(abs(first - number * unit), abs(first + length - (number + 1) * unit))

    near = round(size / length)
    count = min((one for one in (near, near - 1, near + 1) if one > 1), key=off)
    if off(count) > min(BY_CHANCE, length / 8):
        return words
    number = round(first * count / size)
    which = "the first" if number == 0 else "the last" if number == count - 1 else f"number {number + 1}"
    return f"{words}, {which} of {count} equal parts,"


def _whole(unit: int, *, aligned: bool = False) -> Callable[[StateCopy], int]:
    """The whole units of each run; `aligned`: they are at multiples of the unit in memory."""
    return lambda copy: _whole_words(copy, unit, aligned=aligned)


def _address(change: Callable[[int], int]) -> tuple[Rule, ...]:
    return (
        Rule(destination_distance=change),
        Rule(source_distance=change),
        Rule(source_distance=change, destination_distance=change),
    )


def _signed(number: int) -> int:
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)


def _narrow(situation: Situation) -> Iterator[Prediction]:
    layout = situation.before.layout
    far = any(state.block_stride * layout.num_blocks > 1 << 31 for _, state in layout.states())
    if not far or not situation.moves:
        return
    changes = (lambda number: number & 0x7FFFFFFF, lambda number: number & 0xFFFFFFFF, _signed)
    rules = (rule for change in changes for rule in _address(change))
    for number, rule in enumerate(rules):
        yield predicted(situation, rule).in_form(number)


def _unordered(situation: Situation) -> Iterator[Prediction]:
    """Copies whose source and destination overlap, done as if they did not: by warps in no order, or by one warp, which
    moves whole words before the bytes at both ends."""
    shared = [copy for copy in situation.expected.copies if _overlaps(copy)]
    if not shared:
        return
    by_words = situation.expected.image.copy()
    unsettled = situation.before.image.like(np.zeros(len(situation.before.image.data), np.uint8))
    spans = []
    for copy in shared:
        for run in range(copy.runs):
            first = copy.destination + run * copy.run_stride
            unsettled.view(first, copy.run_bytes)[:] = 1
            low = min(first, copy.source + run * copy.run_stride)
            spans.append((low, low + copy.run_bytes + abs(copy.source - copy.destination)))
        if copy.runs == 1:
            _move_words_first(situation.before.image, by_words, copy)
    yield Prediction(
        situation.expected.image,
        results_after(situation),
        unsettled.data.astype(bool),
        raced_by_warps=tuple(spans),
        settled=(situation.expected.image, by_words),  # one warp may do all of it
    )


def _move_words_first(before: Image, after: Image, copy: StateCopy) -> None:
    """Make a copy of one run by words, the widest that its addresses allow, and only then move the bytes before the
    first and after the last of them: what these read may have been overwritten."""
    word = _widest_word(copy)
    head = min(-copy.destination % word, copy.run_bytes)
    tail = head + (copy.run_bytes - head) // word * word
    low, both = min(copy.source, copy.destination), copy.run_bytes + abs(copy.source - copy.destination)
    after.view(low, both)[:] = before.view(low, both)
    for first, last in ((head, tail), (0, head), (tail, copy.run_bytes)):
        held = after.view(copy.source + first, last - first).copy()
        after.view(copy.destination + first, last - first)[:] = held


def _overlaps(copy: StateCopy) -> bool:
    return copy.source != copy.destination and abs(copy.source - copy.destination) < copy.span


def _bias_off(k: int) -> Rule:
    return Rule(
        source_column=lambda place, move: natural_source_column(place, move) + (0 if _conv(place) else k),
        bias=lambda place, move: max(natural_bias(place, move) + k, 0) if _conv(place) else 0,
    )


def _axis(place: StatePlace, move: RowMove) -> int:
    return move.move.source + (move.move.bias if _conv(place) else 0)


SIZES = (
    Deviation(
        "window-bias-ignored", "bias ignored", "windows moved without their bias", by_rule(_window_bias(lambda bias: 0))
    ),
    Deviation(
        "window-bias-off-by-one",
        "bias off by one",
        "windows moved with a bias that is one too large or too small",
        by_rule(_window_bias(lambda bias: bias + 1), _window_bias(lambda bias: max(bias - 1, 0))),
    ),
    Deviation(
        "column-bias-ignored",
        "bias ignored",
        "temporal states were read from the source column whatever the bias",
        by_rule(_temporal_columns(lambda bias: 0)),
    ),
    Deviation(
        "column-bias-off-by-one",
        "bias off by one",
        "temporal states were read a column too far right or left",
        by_rule(_temporal_columns(lambda bias: bias + 1), _temporal_columns(lambda bias: bias - 1)),
    ),
    Deviation(
        "bias-ignored",
        "bias ignored",
        "all states moved without a bias",
        by_rule(Rule(source_column=lambda place, move: move.move.source, bias=lambda place, move: 0)),
    ),
    Deviation(
        "bias-off-by-one",
        "bias off by one",
        "all states moved with a bias that is one too large or too small",
        by_rule(_bias_off(1), _bias_off(-1)),
    ),
    Deviation(
        "bias-on-wrong-axis",
        "axis of the bias",
        "the bias chose a window's column, as it does for temporal states",
        by_rule(
            Rule(source_column=lambda place, move: move.move.source + move.move.bias, bias=lambda place, move: 0),
            Rule(source_column=lambda place, move: move.move.source + move.move.bias),
            Rule(source_column=_axis, bias=lambda place, move: 0),
        ),
    ),
    Deviation(
        "whole-window",
        "window length",
        "a whole window moved, from where its bias begins or into where it ends",
        by_rule(
            Rule(
                shape=lambda place, bias: (
                    natural_shape(place, bias)
                    if not _conv(place)
                    else None
                    if (whole := natural_shape(place, 0)) is None or (rest := natural_shape(place, bias)) is None
                    else Shape(rest.skip, whole.run_bytes, whole.runs, whole.stride)
                )
            )
        ),
    ),
    Deviation(
        "window-length-off-by-one",
        "window length",
        "one token of a window too many or too few moved",
        by_rule(_tokens(1), _tokens(-1)),
    ),
    Deviation(
        "size-by-stride",
        "size of a temporal state",
        "a temporal copy were as long as the block stride, not as the state",
        by_rule(
            _stretched(lambda place: place.state.block_stride - place.state.natural_bytes),
            _stretched(lambda place: min(place.state.block_stride - place.state.natural_bytes, SURPLUS)),
        ),
    ),
    Deviation("ds-as-sd", "layout of a window", "a DS window were in SD layout", by_rule(Rule(shape=_as_sd))),
    Deviation("sd-as-ds", "layout of a window", "an SD window were in DS layout", by_rule(Rule(shape=_as_ds))),
    Deviation(
        "one-run-only",
        "runs of a window",
        "only the first row of a DS window moved",
        by_rule(Rule(shape=_first_row_only)),
    ),
    Deviation("tail-lost", "tail", "the bytes after the last whole word of a copy were left out", _tail_lost),
    Deviation(
        "shares-rounded-down",
        "shares of tiles",
        "the words of a copy were shared between tiles by a division that rounds down",
        _rounded_down,
    ),
    Deviation(
        "part-lost",
        "part of a copy",
        "a part of a copy did not arrive, such as a tile or a tail",
        _part_lost,
        loose=True,
    ),
    Deviation("narrow-offset", "narrow offset", "the offset of a block were a number of 32 bits or fewer", _narrow),
    Deviation(
        "unordered-overlap",
        "order of an overlap",
        "a window were shifted inside its block in no order, although its source and destination overlap",
        _unordered,
    ),
)

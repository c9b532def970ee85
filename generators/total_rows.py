"""Total rows are requests of a total case: any numbers of the specification that make kernels move state.

Most rows move state: a launch in which no request crosses a block boundary tests an early exit and nothing else.
"""

from __future__ import annotations

from harness.case import FRESH, SKIP_ROW, ConvState, Layout, PostprocessRow, PrecopyRow
from harness.generators.board import Board
from harness.generators.draw import Draw

LARGEST_COUNT = 2**30
NEAR = 6
"""Most rows stay within this number of columns."""

Move = tuple[int, int, int]
"""Source column, destination column, bias."""


class TotalRows:
    """Draws the rows of one case. `_known[slot]` are moves of earlier launches: their blocks are already there."""

    def __init__(self, draw: Draw, layout: Layout, board: Board) -> None:
        self._draw = draw
        self._board = board
        self._size = layout.block_size
        self._columns = layout.table_columns
        windows = sorted({state.window for _, state in layout.states() if isinstance(state, ConvState)})
        self._biases = tuple({1, 2, *windows, *(w - 1 for w in windows), *(w + 1 for w in windows)})
        self._most_bias = max(windows, default=3) + 2
        self._known: dict[int, list[Move]] = {}

    def postprocess(self, slot: int) -> PostprocessRow:
        """Usually a row that moves."""
        draw, size = self._draw, self._size
        if slot != SKIP_ROW and draw.boolean(0.85):
            move = self._postprocess_move(slot)
            if self._board.claim(slot, move):
                self._known.setdefault(slot, []).append(move)
                source, destination, bias = move
                running = (destination + 1) * size - bias
                return self._counts(slot, running, bias + 1 + draw.boundary(0, size - 1), source)
        return self._still_postprocess(slot)

    def precopy(self, slot: int, *, biased: bool = True) -> PrecopyRow:
        """A row of precopy; without a bias if not `biased`."""
        draw = self._draw
        if slot != SKIP_ROW and draw.boolean(0.85):
            move = self._precopy_move(slot) if biased else (*self._precopy_move(slot)[:2], 0)
            if self._board.claim(slot, move):
                self._known.setdefault(slot, []).append(move)
                return PrecopyRow(slot=slot, source_column=move[0], destination_column=move[1], bias=move[2])
        column = draw.boundary(0, self._columns - 1, (self._columns,)) if draw.boolean(0.9) else 2**20
        return PrecopyRow(
            slot=slot,
            source_column=FRESH if draw.boolean() or column > self._columns else column,
            destination_column=column,
            bias=draw.boundary(0, self._most_bias),
        )

    def listed(self, slot: int) -> PrecopyRow:
        """A row of copies that the host lists after a step: it moves as a row of postprocess does."""
        if self._draw.boolean(0.85):
            move = self._postprocess_move(slot)
            if self._board.claim(slot, move):
                self._known.setdefault(slot, []).append(move)
                return PrecopyRow(slot=slot, source_column=move[0], destination_column=move[1], bias=move[2])
        return PrecopyRow(slot=slot, source_column=FRESH, destination_column=0, bias=0)

    def _column(self, most: int) -> int:
        """A column up to `most`: near the left, or occasionally one of the last ones."""
        if most > NEAR and self._draw.boolean(0.95):
            return self._draw.integer(0, NEAR)
        return self._draw.boundary(0, most)

    def _bias(self, most: int) -> int:
        if most < 1:
            return 0
        if self._draw.boolean(0.75):  # some of the widest window is left
            return self._draw.integer(1, max(1, min(most, self._most_bias - 3)))
        return self._draw.boundary(0, min(most, self._most_bias), self._biases)

    def _postprocess_move(self, slot: int) -> Move:
        """A move with `bias < (destination + 1) * block size`, columns inside the row; never one without any copy."""
        draw = self._draw
        known = [move for move in self._known.get(slot, ()) if self._decides_postprocess(move)]
        if known and draw.boolean():
            return draw.choice(known)
        last = self._columns - 1
        how = draw.integer(0, 9)
        if how < 4:  # shift within a block
            column = self._column(last - 1)
            most = min(last - column, (column + 1) * self._size - 1)
            if most >= 1:
                return column, column, self._bias(most) or 1
            return column + 1, column, 0
        destination = self._column(last - 1)
        source = self._column(last)
        if how < 8:  # to the left, as production does
            source = min(last, destination + draw.weighted(((1, 6), (2, 1), (3, 1))))
        bias = self._bias(min(last - source, (destination + 1) * self._size - 1))
        if source == destination and bias == 0:
            source = destination + 1
        return source, destination, bias

    def _decides_postprocess(self, move: Move) -> bool:
        source, destination, bias = move
        return bias < (destination + 1) * self._size and (source != destination or bias > 0)

    def _precopy_move(self, slot: int) -> Move:
        draw = self._draw
        known = [move for move in self._known.get(slot, ()) if move[0] != move[1]]
        if known and draw.boolean():
            return draw.choice(known)
        last = self._columns - 1
        source = self._column(last)
        if draw.boolean(0.6):
            destination = source + draw.weighted(((1, 5), (-1, 2), (2, 1), (3, 1)))
        else:
            destination = self._column(last)
        destination = max(0, min(last, destination))
        if destination == source:
            destination = source - 1 if source else 1
        return source, destination, self._bias(last - source)

    def _counts(self, slot: int, running: int, accepted: int, state_column: int) -> PostprocessRow:
        """Counts with this many `running` tokens; usually those of a decode, with as many drafts as needed."""
        draw = self._draw
        draft = max(0, accepted - 1)
        if draw.boolean(0.3):
            draft += draw.integer(1, 3)
        elif draw.boolean(0.05):
            draft = draw.integer(0, 3)
        kept = 1 if running == 1 or draw.boolean(0.7) else draw.boundary(0, running, (self._size,))
        return PostprocessRow(
            slot=slot,
            scheduled=draft + kept,
            computed=running - kept,
            draft=draft,
            accepted=accepted,
            state_column=state_column,
        )

    def _still_postprocess(self, slot: int) -> PostprocessRow:
        """A row that moves nothing: nothing kept, no boundary reached, or the state is at the boundary already."""
        draw, size = self._draw, self._size
        column = draw.boundary(0, self._columns - 1)
        how = draw.integer(0, 9)
        if how < 3:
            return self._counts(slot, draw.boundary(1, 4 * size, (size,)), 0, column)
        if how == 3:  # sums near the largest int32
            return PostprocessRow(
                slot=slot,
                scheduled=LARGEST_COUNT - 2,
                computed=LARGEST_COUNT,
                draft=draw.integer(0, 1),
                accepted=0,
                state_column=2**20,
            )
        if how < 7 and size > 1:  # inside a block
            into = draw.integer(1, size - 1)
            running = column * size + into
            return self._counts(slot, running, draw.integer(1, size - into), column)
        return self._counts(slot, (column + 1) * size, 1 + draw.boundary(0, size - 1), column)

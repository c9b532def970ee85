"""The result of the V1 runner's preprocess (docs/domain.md, sections 4 and 7)."""

from __future__ import annotations

from harness.case import FRESH, InvalidCase, Preprocess
from harness.case.operations.results import ACCEPTED_ON_HOST, COLUMNS, NO_COLUMN
from harness.oracles.before import Before
from harness.oracles.decisions import Move
from harness.oracles.expected import Expected, move_states
from harness.oracles.operations.scalar_copy import move_by_list
from harness.oracles.operations.stage import both_sides


def expect_preprocess(operation: Preprocess, before: Before) -> Expected:
    """Raises InvalidCase if a move is outside the preconditions, or an accepted count gives no bias for it."""
    size = before.layout.block_size
    columns: dict[int, int] = {}
    sources: dict[int, int] = {}
    biases: dict[int, int] = {}
    accepted: dict[int, int] = {}
    moves = []
    for i, row in enumerate(operation.rows):
        source, destination = row.source_column(size), row.destination_column(size)
        columns[i] = destination
        sources[i], biases[i] = FRESH, 0
        if source not in (FRESH, destination):
            if row.accepted < 1:
                raise InvalidCase(f"batch row {i} moves, and its accepted count {row.accepted} gives no bias")
            sources[i], biases[i] = source, row.accepted - 1
            accepted[i] = 1
            moves.append((i, row.slot, Move(source, destination, biases[i])))
    for i, absent in enumerate(operation.absent):
        gone = absent.state_column is None or absent.absence != "idle"
        columns[len(operation.rows) + i] = NO_COLUMN if gone else absent.state_column  # type: ignore[assignment]
    host = {COLUMNS: columns, ACCEPTED_ON_HOST: accepted}
    if operation.path == "scalar":
        expected = move_by_list(before, moves)
        return Expected(expected.image, expected.copies, results=host, launches=expected.launches)
    after, copies = move_states(before, moves)
    staged = {"state_column": {i: columns[i] for i in range(len(operation.rows))}}
    staged |= {"source_column": sources, "bias": biases}
    return Expected(after, copies, results={**host, **both_sides(staged)})

"""Regimes around the two kernels that move state: advance, indices, staging, the scalar path, entry points,
bookkeeping."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from harness.case import (
    FRESH,
    SKIP_ROW,
    Advance,
    AdvanceRow,
    AlignedIndices,
    AllMode,
    AllModeRow,
    EditTables,
    FillAccepted,
    Forward,
    MovePath,
    PostprocessEntry,
    Preprocess,
    PreprocessRow,
    ScalarCopy,
    ScatterAccepted,
    Stage,
)
from harness.regimes.facts import Facts
from harness.regimes.regime import Predicate, Regime, of_operation

# Parts of predicates.


def _advances(holds: Callable[[AdvanceRow, int], bool]) -> Predicate:
    """Whether `holds` is true for some row of an advance; `holds` gets the row and its new column."""

    def predicate(f: Facts) -> bool:
        size = f.layout.block_size
        return any(
            holds(row, (row.computed + row.query_length - 1) // size)
            for operation in f.operations(Advance)
            for row in operation.rows
        )

    return predicate


def _scalar_moves(f: Facts, least_bias: int) -> bool:
    return any(
        operation.moves(row) and row.bias >= least_bias
        for operation in f.operations(ScalarCopy)
        for row in operation.rows
    )


def _prepares(holds: Callable[[PreprocessRow], bool]) -> Predicate:
    return lambda f: any(holds(row) for operation in f.operations(Preprocess) for row in operation.rows)


def _goes_by(path: MovePath) -> Predicate:
    return lambda f: any(operation.rows and operation.path == path for operation in f.operations(Preprocess))


def _absent(kind: type[Preprocess] | type[AllMode], absence: str) -> Predicate:
    """Whether a request that is not in the batch, of which a column is known, is absent in this way."""
    return lambda f: any(
        request.absence == absence and request.state_column is not None
        for operation in f.operations(kind)
        for request in operation.absent
    )


def _remembers(holds: Callable[[AllModeRow, int], bool]) -> Predicate:
    """Whether `holds` is true for some row of the bookkeeping; `holds` gets the row and the number of speculative
    tokens of a decode."""
    return lambda f: any(holds(row, f.layout.num_spec) for operation in f.operations(AllMode) for row in operation.rows)


REGIMES: tuple[Regime, ...] = (
    # Advance and indices.
    of_operation(
        Advance,
        "advance-fresh",
        "an advance of a request without state",
        _advances(lambda row, _: row.state_column == FRESH),
    ),
    of_operation(
        Advance,
        "advance-to-new-column",
        "an advance to another column, which resets the count",
        _advances(lambda row, column: row.state_column not in (FRESH, column)),
    ),
    of_operation(
        Advance,
        "advance-in-column",
        "an advance that stays in its column",
        _advances(lambda row, column: row.state_column == column),
    ),
    of_operation(
        Advance,
        "advance-biased",
        "an advance to another column with more than one accepted token",
        _advances(lambda row, column: row.accepted > 1 and row.state_column not in (FRESH, column)),
    ),
    of_operation(
        Advance,
        "advance-over-blocks",
        "an advance of more than a block",
        _advances(lambda row, column: row.state_column != FRESH and column - row.state_column > 1),
    ),
    of_operation(
        Advance,
        "query-start-offset",
        "queries that are not counted from 0",
        lambda f: any(operation.query_start for operation in f.operations(Advance)),
        reachable=False,
    ),
    of_operation(
        AlignedIndices,
        "aligned-on-boundary",
        "aligned indices of a request that ends on a block boundary",
        lambda f: any(
            row.length > 0 and row.length % f.layout.block_size == 0
            for operation in f.operations(AlignedIndices)
            for row in operation.rows
        ),
    ),
    of_operation(
        AlignedIndices,
        "aligned-inside-block",
        "aligned indices of a request that ends inside a block",
        lambda f: any(
            row.length % f.layout.block_size for operation in f.operations(AlignedIndices) for row in operation.rows
        ),
    ),
    of_operation(
        AlignedIndices,
        "aligned-length-0",
        "aligned indices of a request without tokens",
        lambda f: any(row.length == 0 for operation in f.operations(AlignedIndices) for row in operation.rows),
        reachable=False,
    ),
    # Staging and the scalar path.
    of_operation(
        Stage,
        "stage-drafts",
        "staged requests with drafts",
        lambda f: any(row.draft for operation in f.operations(Stage) for row in operation.rows),
    ),
    of_operation(
        Stage,
        "stage-waiting-requests",
        "requests in the runner's list that are not staged",
        lambda f: any(operation.waiting for operation in f.operations(Stage)),
    ),
    of_operation(
        Stage,
        "stage-missing-column",
        "a request to stage that has no column",
        lambda f: any(row.state_column is None for operation in f.operations(Stage) for row in operation.rows),
        reachable=False,
    ),
    of_operation(ScalarCopy, "scalar-copy-moves", "a move by a list of copies", lambda f: _scalar_moves(f, 0)),
    of_operation(
        ScalarCopy,
        "scalar-copy-biased",
        "a move by a list of copies, some tokens on",
        lambda f: _scalar_moves(f, 1),
    ),
    of_operation(
        ScalarCopy,
        "scalar-copy-within-block",
        "a move inside a block by a list of copies",
        lambda f: any(
            operation.moves(row) and row.source_column == row.destination_column
            for operation in f.operations(ScalarCopy)
            for row in operation.rows
        ),
    ),
    # Accepted counts.
    of_operation(
        ScatterAccepted,
        "scatter-clamped",
        "a request that sampled nothing and counts as one token",
        lambda f: any(
            row.sampled == 0 and row.slot != SKIP_ROW
            for operation in f.operations(ScatterAccepted)
            for row in operation.rows
        ),
    ),
    of_operation(
        ScatterAccepted,
        "scatter-above-one",
        "a request that sampled several tokens",
        lambda f: any(
            row.sampled > 1 and row.slot != SKIP_ROW
            for operation in f.operations(ScatterAccepted)
            for row in operation.rows
        ),
    ),
    of_operation(
        FillAccepted,
        "fill-clamped",
        "counts to be filled with 0, which become 1",
        lambda f: any(operation.rows and operation.sampled == 0 for operation in f.operations(FillAccepted)),
    ),
    of_operation(
        FillAccepted,
        "fill-above-one",
        "counts to be filled with more than 1",
        lambda f: any(operation.rows and operation.sampled > 1 for operation in f.operations(FillAccepted)),
        reachable=False,
    ),
    # Entry points and bookkeeping of the V1 runner.
    of_operation(
        PostprocessEntry,
        "first-use",
        "a postprocess that has to bind its context first",
        lambda f: any(operation.first_use for operation in f.operations(PostprocessEntry)),
    ),
    of_operation(
        PostprocessEntry,
        "later-use",
        "a postprocess entry with a context that is bound",
        lambda f: any(operation.rows and not operation.first_use for operation in f.operations(PostprocessEntry)),
    ),
    *(
        of_operation(
            Preprocess,
            f"preprocess-{path}",
            f"a preprocess by the {path} path",
            _goes_by(path),
            reachable=path != "fused",  # with drafts, a reachable one goes by the path of production
        )
        for path in get_args(MovePath)
    ),
    *(
        of_operation(
            Preprocess,
            f"preprocess-{absence}",
            f"a remembered request that is {absence} during a preprocess",
            _absent(Preprocess, absence),
        )
        for absence in ("finished", "preempted", "idle")
    ),
    of_operation(
        Preprocess, "preprocess-resumed", "a resumed request in a preprocess", _prepares(lambda row: row.resumed)
    ),
    of_operation(
        Preprocess,
        "preprocess-stale-column",
        "a resumed request with a column from before",
        _prepares(lambda row: row.resumed and row.state_column is not None),
    ),
    of_operation(
        Preprocess,
        "preprocess-column-from-computed",
        "a request with computed tokens and no column",
        _prepares(lambda row: row.computed > 0 and (row.resumed or row.state_column is None)),
    ),
    of_operation(
        AllMode,
        "all-mode-decode",
        "a whole speculative decode to remember",
        _remembers(lambda row, num_spec: num_spec > 0 and row.scheduled == 1 + num_spec),
    ),
    of_operation(
        AllMode,
        "all-mode-other-step",
        "a remembered request whose step is not a whole decode",
        _remembers(
            lambda row, num_spec: num_spec > 0 and row.state_column is not None and row.scheduled != 1 + num_spec
        ),
    ),
    of_operation(
        AllMode,
        "all-mode-nothing-remembered",
        "a request of which no column is known",
        _remembers(lambda row, _: row.state_column is None),
    ),
    of_operation(AllMode, "all-mode-finished", "a remembered request that has finished", _absent(AllMode, "finished")),
    # Programs of several steps.
    of_operation(
        Forward,
        "forward-pass",
        "a forward pass that writes states",
        lambda f: any(operation.rows for operation in f.operations(Forward)),
    ),
    of_operation(Forward, "several-steps", "a program of several steps", lambda f: len(f.operations(Forward)) > 1),
    of_operation(
        Forward,
        "shared-arrays",
        "operations that pass their results on in shared arrays",
        lambda f: f.case.linked and len(f.case.program) > 1,
    ),
    of_operation(
        EditTables,
        "table-edits",
        "block tables that change between steps",
        lambda f: any(operation.cells for operation in f.operations(EditTables)),
        operation="forward",
    ),
)

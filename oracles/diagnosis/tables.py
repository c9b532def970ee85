"""Deviations of the look-up of a block: which table, which row of it, which column, which block."""

from __future__ import annotations

from collections.abc import Iterator

from harness.case import ConvState
from harness.oracles.diagnosis.copying import Rule, natural_source_column, predicted
from harness.oracles.diagnosis.deviation import Deviation, Predict
from harness.oracles.diagnosis.prediction import Prediction
from harness.oracles.diagnosis.situation import Situation


def by_rule(*rules: Rule) -> Predict:
    """The predictions of rules that do not depend on the case."""

    def predict(situation: Situation) -> Iterator[Prediction]:
        if situation.moves:
            for number, rule in enumerate(rules):
                yield predicted(situation, rule).in_form(number)

    return predict


def _one_table(situation: Situation) -> Iterator[Prediction]:
    groups = len(situation.before.layout.groups)
    for group in range(groups if situation.moves and groups > 1 else 0):
        yield predicted(situation, Rule(group=lambda _, group=group: group)).in_form(group)  # type: ignore[misc]


def _neighbours_table(situation: Situation) -> Iterator[Prediction]:
    groups = len(situation.before.layout.groups)
    for shift in range(1, groups if situation.moves else 0):
        rule = Rule(group=lambda group, shift=shift: (group + shift) % groups)  # type: ignore[misc]
        yield predicted(situation, rule).in_form(shift)


def _from_the_end(situation: Situation) -> Iterator[Prediction]:
    last = situation.before.layout.table_columns - 1
    if situation.moves:
        rule = Rule(destination_column=lambda place, move: last - move.move.destination)
        yield predicted(situation, rule).in_form("destination")
        rule = Rule(source_column=lambda place, move: last - natural_source_column(place, move))
        yield predicted(situation, rule).in_form("source")


def _first_row(situation: Situation, source: bool, destination: bool) -> Iterator[Prediction]:
    """All requests read one row, the first of the table or that of the first request."""
    if not situation.moves:
        return
    for form, row in (("first row", 0), ("first request", situation.moves[0].slot)):
        rule = Rule()
        source_row = (lambda move, row=row: row) if source else rule.source_row
        destination_row = (lambda move, row=row: row) if destination else rule.destination_row
        yield predicted(situation, Rule(source_row=source_row, destination_row=destination_row)).in_form(form)


def _columns(source: int, destination: int) -> Rule:
    return Rule(
        source_column=lambda place, move: natural_source_column(place, move) + source,
        destination_column=lambda place, move: move.move.destination + destination,
    )


TABLES = (
    Deviation("one-groups-table", "group", "every group read the block table of one of them", _one_table),
    Deviation("neighbours-table", "group", "each group read the block table of another one", _neighbours_table),
    Deviation(
        "batch-row-for-slot",
        "row",
        "the batch row were the slot where block tables are read",
        by_rule(Rule(source_row=lambda move: move.row, destination_row=lambda move: move.row)),
    ),
    Deviation(
        "batch-row-for-source-slot",
        "row",
        "the batch row were the slot where the source block is read",
        by_rule(Rule(source_row=lambda move: move.row)),
    ),
    Deviation(
        "batch-row-for-destination-slot",
        "row",
        "the batch row were the slot where the destination block is read",
        by_rule(Rule(destination_row=lambda move: move.row)),
    ),
    Deviation(
        "one-requests-row",
        "one row",
        "all requests read the table row of one of them",
        lambda situation: _first_row(situation, source=True, destination=True),
    ),
    Deviation(
        "one-requests-source-row",
        "one row",
        "all requests read their source block in the table row of one of them",
        lambda situation: _first_row(situation, source=True, destination=False),
    ),
    Deviation(
        "one-requests-destination-row",
        "one row",
        "all requests read their destination block in the table row of one of them",
        lambda situation: _first_row(situation, source=False, destination=True),
    ),
    Deviation(
        "next-row",
        "next row",
        "each request read the table row after or before its own",
        by_rule(
            *(
                Rule(source_row=lambda move, k=k: move.slot + k, destination_row=lambda move, k=k: move.slot + k)  # type: ignore[misc]
                for k in (1, -1)
            )
        ),
    ),
    Deviation(
        "source-column-off",
        "source column",
        "the source column were a column or two further on, or before",
        by_rule(*(_columns(k, 0) for k in (1, -1, 2, -2))),
    ),
    Deviation(
        "destination-column-off",
        "destination column",
        "the destination column were a column or two further on, or before",
        by_rule(*(_columns(0, k) for k in (1, -1, 2, -2))),
    ),
    Deviation(
        "both-columns-off",
        "both columns",
        "source and destination column were both one further on, or before",
        by_rule(*(_columns(k, k) for k in (1, -1))),
    ),
    Deviation(
        "destination-is-source",
        "destination is source",
        "states were written to the block of the source column, or not moved at all",
        by_rule(
            Rule(destination_column=lambda place, move: move.move.source),
            Rule(destination_column=natural_source_column),
        ),
    ),
    Deviation(
        "source-is-destination",
        "source is destination",
        "states were read from the block of the destination column, or not moved at all",
        by_rule(Rule(source_column=lambda place, move: move.move.destination)),
    ),
    Deviation(
        "columns-swapped",
        "columns swapped",
        "states moved from the destination to the source",
        by_rule(
            Rule(
                source_column=lambda place, move: move.move.destination,
                destination_column=natural_source_column,
            )
        ),
    ),
    Deviation(
        "column-from-the-end",
        "column from the end",
        "a column were counted from the end of the table row",
        _from_the_end,
    ),
    Deviation(
        "null-block-read",
        "null block",
        "temporal states were read from the null block where no draft was accepted",
        by_rule(
            Rule(
                source_block=lambda place, move, block: (
                    block if isinstance(place.state, ConvState) or move.move.bias else 0
                )
            )
        ),
    ),
    Deviation(
        "null-block-always",
        "null block",
        "all states were read from the null block",
        by_rule(
            Rule(source_block=lambda place, move, block: 0),
            Rule(source_block=lambda place, move, block: block if isinstance(place.state, ConvState) else 0),
        ),
    ),
)

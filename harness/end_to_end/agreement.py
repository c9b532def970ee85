"""Agreement is that an engine and the symbolic run of the same sequence do the same in every step.

What the symbolic run is: the release's scheduler and block manager without a model, and our model of its runner. An
engine has the real ones, so a difference is a fault of the harness, or something that the harness leaves out. Compared
are, in each step and of each row: request, place in the batch, computed and scheduled tokens, drafts, accepted tokens,
the column of the state, what is moved there and with which bias, and the rows of all block tables with their block ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from harness.case.sequence import SequenceCase
from harness.case.step_row import StepRow
from harness.end_to_end.carrying import MODEL_METHODS
from harness.end_to_end.kinds import KINDS
from harness.end_to_end.messages import DEFAULT_LAYERS, EngineFacts
from harness.end_to_end.recipe import without_deep_sleep

COUNTS = ("request", "slot", "computed", "scheduled", "drafts", "accepted", "state_column", "move")
TABLES = ("attention", "mamba")


class Difference(msgspec.Struct, frozen=True):
    """The first difference of a sequence: `step` counts steps with rows, from 0."""

    step: int
    field: str
    request: int
    engine: object
    symbolic: object

    @property
    def text(self) -> str:
        """For people."""
        return (
            f"step {self.step}, request {self.request}: {self.field} is {self.engine} on the engine, {self.symbolic} in"
            " the symbolic run"
        )


class Compared(msgspec.Struct):
    """How much was compared: steps, rows, and cells of block tables, and values by field."""

    steps: int = 0
    rows: int = 0
    cells: int = 0
    drafts: int = 0
    accepted: int = 0

    def add(self, other: Compared) -> None:
        """Count what another one counts as well."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


def first_difference(
    engine: Sequence[Sequence[StepRow]], symbolic: Sequence[Sequence[StepRow]], ended: bool, compared: Compared
) -> Difference | None:
    """The first difference between the steps of both. `ended`: the symbolic run stopped early, so that the engine may
    have more steps."""
    for number, (rows, planned) in enumerate(zip(engine, symbolic, strict=False)):
        found = _of_step(number, rows, planned)
        if found is not None:
            return found
        compared.steps += 1
        compared.rows += len(rows)
        for row in rows:
            compared.cells += sum(len(table) for table in (*row.attention, *row.mamba))
            compared.drafts += row.drafts
            compared.accepted += row.accepted > 1
    if len(engine) < len(symbolic) or (len(engine) > len(symbolic) and not ended):
        return Difference(min(len(engine), len(symbolic)), "number of steps", -1, len(engine), len(symbolic))
    return None


def _of_step(number: int, rows: Sequence[StepRow], planned: Sequence[StepRow]) -> Difference | None:
    names = [row.request for row in rows], [row.request for row in planned]
    if names[0] != names[1]:
        return Difference(number, "requests", -1, *names)
    for row, plan in zip(rows, planned, strict=True):
        for field in (*COUNTS, *TABLES):
            mine, theirs = getattr(row, field), getattr(plan, field)
            if mine != theirs and mine != ():
                return Difference(number, field, row.request, mine, theirs)
    return None


def as_an_engine_is(case: SequenceCase, facts: EngineFacts | None = None) -> Iterator[SequenceCase]:
    """A drawn sequence with what an engine has in the place of what it has not; none where there is nothing like it."""
    config = case.config
    layers = config.layers or DEFAULT_LAYERS
    if layers not in KINDS or case.streams:
        return
    method = config.spec_method
    if method not in (*MODEL_METHODS, "ngram", "none"):
        return
    changed = msgspec.structs.replace(config, layers=layers, drafter_block_size=None, vocabulary=64)
    if facts is not None:
        changed = msgspec.structs.replace(changed, checkpoint_alignment=facts.checkpoint_alignment, kernel=facts.window)
    yield msgspec.structs.replace(case, config=changed, events=tuple(map(without_deep_sleep, case.events)))


def summary(compared: Compared, cases: int, ended: int, skipped: Counter[str]) -> str:
    """What was compared, in a line: `ended` of the sequences up to a violation alone."""
    left_out = "".join(f"; {count} left out ({reason})" for reason, count in sorted(skipped.items()))
    return (
        f"{cases} sequences compared, {ended} of them up to a violation, {compared.steps} steps with"
        f" {compared.rows} rows: {compared.cells} cells of block tables,"
        f" {compared.drafts} drafts, {compared.accepted} rows that keep drafts{left_out}"
    )

"""Agreeing is running drawn sequences both ways, and comparing step by step (agreement.py)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from harness.case.sequence import SequenceCase
from harness.end_to_end.agreement import Compared, Difference, as_an_engine_is, first_difference
from harness.end_to_end.chance import parted_by_chance
from harness.end_to_end.confirming import differences
from harness.end_to_end.engine_process import EngineProcess
from harness.end_to_end.kinds import KINDS
from harness.end_to_end.messages import EngineFacts, ModelKind, RunSequence, SequenceAnswer, model_of
from harness.sequences.controls import Controls
from harness.sequences.judge import AskedSequence
from harness.sequences.planned_steps import PlannedSteps
from harness.sequences.recipe import SequenceRecipe, sequence_at
from harness.sequences.worker import SequenceWorker, defaults_of
from harness.worker.losses import WorkerLost

DRAWN_AT_MOST = 10
"""Sequences that are drawn for each one that is to be compared. About half of them are none that an engine can have."""

OTHER_TOKENS = 4
"""Times that a sequence runs at most, each time with other tokens, where a difference may come from chance."""


class OneSequence(NamedTuple):
    """What came out of a sequence: `difference` is None if both did the same. `ended` is the violation that the
    symbolic run found, where it stops. `unseen` are requests for which the engine says wrong tokens although the
    symbolic run went to its end and found nothing wrong."""

    number: int
    case: SequenceCase
    difference: Difference | None
    ended: str | None
    unseen: tuple[int, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether both did the same, and judge it alike."""
        return self.difference is None and not self.unseen


class Agreeing:
    """Draws sequences for one target by a recipe (V1, blocks of 32), and runs them without fixes. `compared`,
    `left_out` and `ended` (how many were compared up to a violation alone) grow as it runs."""

    def __init__(self, engine: EngineProcess, symbolic: SequenceWorker, recipe: SequenceRecipe) -> None:
        self._engine, self._symbolic = engine, symbolic
        defaults = defaults_of(symbolic).defaults
        if defaults is not None:  # no engine here has streaming input
            defaults = msgspec.structs.replace(defaults, streams=False)
        self._recipe = msgspec.structs.replace(recipe, defaults=defaults)
        self._facts: dict[tuple[ModelKind, int], EngineFacts] = {}
        self.compared = Compared()
        self.ended = 0
        self.left_out: Counter[str] = Counter()

    def run(self, first: int, wanted: int) -> Iterator[OneSequence]:
        """One sequence after the other from number `first` on, until `wanted` have been compared, or as many as
        DRAWN_AT_MOST allows have been drawn. Raises what workers raise."""
        done = 0
        for index in range(first, first + DRAWN_AT_MOST * wanted):
            if done == wanted:
                return
            case = self._case(index)
            if case is None:
                self.left_out["no engine has what it asks for"] += 1
                continue
            one = self._compared(index, case)
            if isinstance(one, str):
                self.left_out[one] += 1
                continue
            done += 1
            yield one

    def _compared(self, index: int, case: SequenceCase) -> OneSequence | str:
        """A sequence run both ways, or why it is left out. Where a difference may come from tokens that are the same by
        chance it runs once more, with the texts of a smaller vocabulary."""
        for fewer in range(OTHER_TOKENS):
            config = msgspec.structs.replace(case.config, vocabulary=case.config.vocabulary - fewer)
            tried = msgspec.structs.replace(case, config=config)
            planned = self._planned(tried)
            answer = self._run(tried)
            if answer is None or answer.refused is not None:
                return "an engine refuses it" if answer else "its process was lost"
            ended = planned.ended or answer.raised
            compared = Compared()
            difference = first_difference(answer.recorded, planned.steps, ended is not None, compared)
            if difference is None or not parted_by_chance(tried, answer):
                self.compared.add(compared)
                self.ended += ended is not None
                wrong = () if ended else tuple(one.request for one in differences(answer)[0])
                return OneSequence(index, tried, difference, planned.ended, wrong)
        return "requests share tokens by chance"

    def _case(self, index: int) -> SequenceCase | None:
        drawn = sequence_at(self._recipe, index)
        model = model_of(drawn.config)
        if model.layers not in KINDS:
            return None
        key = (model, drawn.config.num_spec)
        if key not in self._facts:
            self._facts[key] = self._engine.facts(*key)
        return next(as_an_engine_is(drawn, self._facts[key]), None)

    def _planned(self, case: SequenceCase) -> PlannedSteps:
        question = msgspec.msgpack.encode(AskedSequence(case, Controls()))
        return msgspec.msgpack.decode(self._symbolic.ask("planned steps", question), type=PlannedSteps)

    def _run(self, case: SequenceCase) -> SequenceAnswer | None:
        try:
            return self._engine.run(RunSequence(sequence=case, record=True))
        except WorkerLost:
            return None

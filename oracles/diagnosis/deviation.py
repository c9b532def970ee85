"""A deviation is one way in which code may differ from the specification, and what it would leave behind.

It is a small variation of the scalar oracle. `family` joins deviations of one cause: the same mistake with other
numbers, or in another place of the same calculation. A `loose` one has numbers that are fitted to what was found; it
counts only where no other one reproduces it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from harness.oracles.diagnosis.prediction import Prediction
from harness.oracles.diagnosis.situation import Situation

Predict = Callable[[Situation], Iterable[Prediction]]
"""What a deviation would leave behind, for each of its numbers; nothing where it makes no sense."""


@dataclass(frozen=True)
class Deviation:
    """`name` is what `--json` and files call it, `words` the end of the sentence "as if ..."."""

    name: str
    family: str
    words: str
    predict: Predict
    loose: bool = False

    def reproduces(self, situation: Situation) -> bool:
        """Whether it leaves exactly what was found."""
        return any(prediction.reproduces(situation) for prediction in self.predict(situation))

    def shows(self, situation: Situation) -> bool:
        """Whether it would be seen for sure, with any of its numbers."""
        predictions = list(self.predict(situation))
        return bool(predictions) and all(prediction.shows(situation) for prediction in predictions)

"""A deviation is one way in which code may differ from the specification, and what it would leave behind.

It is a small variation of the scalar oracle. `family` joins deviations of one cause: the same mistake with other
numbers, or in another place of the same calculation. A `loose` one has numbers that are fitted to what was found; it
counts only where no other one reproduces it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from harness.oracles.diagnosis.prediction import Prediction
from harness.oracles.diagnosis.situation import Situation

Predict = Callable[[Situation], Iterable[Prediction]]
"""What a deviation would leave behind, for each of its numbers; nothing where it makes no sense."""


class Form(NamedTuple):
    """A deviation with one of its numbers or places (`Prediction.form`). One cause has one form in all its cases."""

    deviation: str
    form: str = ""


@dataclass(frozen=True)
class Deviation:
    """`name` is what `--json` and files call it, `words` the end of the sentence "as if ..."."""

    name: str
    family: str
    words: str
    predict: Predict
    loose: bool = False

    def reproducing(self, situation: Situation) -> tuple[Form, ...]:
        """Its forms that leave exactly what was found."""
        forms = (Form(self.name, one.form) for one in self.predict(situation) if one.reproduces(situation))
        return tuple(dict.fromkeys(forms))

    def fitted(self, situation: Situation) -> str:
        """The numbers with which it leaves exactly what was found, in words; empty where none is fitted."""
        found = (one.fitted for one in self.predict(situation) if one.fitted and one.reproduces(situation))
        return next(found, "")

    def showing(self, situation: Situation, forms: Collection[Form]) -> tuple[Form, ...]:
        """Those of `forms` that would be seen for sure, with any of their numbers."""
        seen: dict[Form, bool] = {}
        for prediction in self.predict(situation):
            form = Form(self.name, prediction.form)
            if form in forms and seen.get(form, True):
                seen[form] = prediction.shows(situation)
        return tuple(form for form, shows in seen.items() if shows)

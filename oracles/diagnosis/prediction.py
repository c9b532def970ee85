"""A prediction is what memory, the host's results and refused accesses would be if one deviation were there."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.memory import Image
from harness.oracles.diagnosis.situation import Refused, Results, Situation

NEAR = 16
"""A refused access is at most this wide: bytes that near the border of what may be touched belong to it."""


@dataclass(frozen=True)
class Prediction:
    """`image` is memory afterwards, of which `unsettled` bytes may hold anything (two copies write them, or a refused
    load fed them), and `either` lists other images that it may equal byte by byte. `results` are what the host sees.
    `form` names one of the numbers or places that the deviation may have, which must be the same in every case; empty
    if it may vary.
    `outside` are the bytes that refused accesses touch, `raced` those that two programs touch in no order, and
    `raced_by_warps` those that two warps of one program do, each as (first, one past the last). `settled` are images of
    which it must be one if nothing raced: one program, or one warp, may do all of these copies. `vague` are the
    unsettled bytes that refused accesses leave open, whether anything raced or not, and `seams` the borders between two
    objects that words of a copy may lie across: whether they do, and are refused, their width decides. `fitted` are the
    numbers that were fitted to what was found, in words."""

    image: Image
    results: Results
    unsettled: NDArray[np.bool_] | None = None
    either: Sequence[Image] = ()
    outside: Sequence[tuple[int, int]] = ()
    raced: Sequence[tuple[int, int]] = ()
    raced_by_warps: Sequence[tuple[int, int]] = ()
    late_writes: bool = False
    form: str = ""
    settled: Sequence[Image] = ()
    vague: NDArray[np.bool_] | None = None
    seams: Sequence[int] = ()
    fitted: str = ""

    def in_form(self, form: str | int) -> Prediction:
        """The same, of one form of its deviation."""
        return dataclasses.replace(self, form=str(form))

    def deviates(self, situation: Situation) -> bool:
        """Whether it differs from what is right in a way that can be seen."""
        if self.outside or self.raced or self.raced_by_warps or self.either or self.late_writes:
            return True
        if not np.array_equal(self.image.data, situation.expected.image.data):
            return True
        right = results_after(situation)
        return any(not np.array_equal(self.results[name], right[name]) for name in right)

    def reproduces(self, situation: Situation) -> bool:
        """Whether it is what was found, byte for byte and number for number."""
        return (
            self.deviates(situation)
            and bool(situation.late_writes) == self.late_writes
            and self._explains_accesses(situation)
            and self._explains_races(situation)
            and self._same_results(situation)
            and self._same_bytes(situation)
        )

    def shows(self, situation: Situation) -> bool:
        """Whether it would be seen for sure: some byte or result that is settled differs from what was found."""
        return not self._same_results(situation) or not self._same_bytes(situation)

    def _without_race(self, situation: Situation) -> bool:
        """Whether nothing raced where two programs or warps would have."""
        return bool(self.raced or self.raced_by_warps) and situation.races_watched and not situation.races

    def _same_bytes(self, situation: Situation) -> bool:
        found = situation.found.data
        if self._without_race(situation):
            vague = np.zeros(len(found), dtype=bool) if self.vague is None else self.vague
            return any(not ((found != image.data) & ~vague).any() for image in self.settled)
        wrong = found != self.image.data
        for other in self.either:
            wrong &= found != other.data
        if self.unsettled is not None:
            wrong &= ~self.unsettled
        return not wrong.any()

    def _same_results(self, situation: Situation) -> bool:
        return all(
            np.array_equal(self.results[name], found)
            for name, found in situation.found_results.items()
            if name not in situation.expected.undefined
        )

    def _explains_accesses(self, situation: Situation) -> bool:
        """Every refused access was to be, or may have been; some must have been where some were to be."""
        if not situation.watched:
            return not situation.refused
        others = [one for one in situation.refused if not _is_among(one, self.outside)]
        if self.outside and len(others) == len(situation.refused):
            return False
        return all(_is_across(one, self.seams) for one in others)

    def _explains_races(self, situation: Situation) -> bool:
        """Every race is where it was to be."""
        # Where one program makes several copies, those that two programs would race for its warps race for.
        by = {"programs": self.raced, "warps": (*self.raced, *self.raced_by_warps)}
        return all(any(first <= race.offset < last for first, last in by[race.between]) for race in situation.races)


def _is_among(refused: Refused, spans: Sequence[tuple[int, int]]) -> bool:
    return any(first < refused.offset + refused.width and refused.offset < last for first, last in spans)


def _is_across(refused: Refused, seams: Sequence[int]) -> bool:
    return any(refused.offset < seam < refused.offset + refused.width for seam in seams)


def results_after(situation: Situation) -> dict[str, NDArray[np.int64]]:
    """What the host must see afterwards, by the specification."""
    return with_entries(situation, situation.expected.results)


def is_wrong(situation: Situation) -> bool:
    """Whether anything was found that must not be."""
    if situation.refused or situation.races or situation.late_writes:
        return True
    right = results_after(situation)
    return not np.array_equal(situation.found.data, situation.expected.image.data) or any(
        not np.array_equal(found, right[name])
        for name, found in situation.found_results.items()
        if name not in situation.expected.undefined
    )


def with_entries(situation: Situation, entries: Mapping[str, Mapping[int, int]]) -> dict[str, NDArray[np.int64]]:
    """What the host sees if only these entries change."""
    results = {name: values.copy() for name, values in situation.results.items()}
    for name, changed in entries.items():
        if name in results and changed:
            results[name][list(changed)] = list(changed.values())
    return results

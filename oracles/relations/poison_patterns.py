"""Poison patterns: unwritten bytes must not decide anything.

The case runs once more with the complement of its poison in every gap and guard, and in the target's own buffers. That
run must be right too, and it may differ from the first only in bytes that a trace of the copies leads back to bytes
that were never written. A branch on padding, or a sum over a buffer that was never filled, is right in at most one run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from harness.memory import Image
from harness.oracles.relations.base import (
    CaseVariant,
    Comparison,
    Mismatch,
    Relation,
    ResultMismatch,
    Run,
    RunStep,
)


class PoisonPatterns(Relation):
    name = "poison-patterns"
    summary = "with the other poison pattern, except for bytes that were never written"

    def variants(self, first: Run) -> Sequence[CaseVariant]:
        contents = first.case.contents
        other = msgspec.structs.replace(contents, poison="B" if contents.poison == "A" else "A")
        return [CaseVariant(msgspec.structs.replace(first.case, contents=other), fresh=True, judged=True)]

    def mismatches(self, first: Run, others: Sequence[Run]) -> Iterator[Mismatch | ResultMismatch]:
        (other,) = others
        undefined = _differing(first.before, other.before)
        for index, step in enumerate(first.steps):
            _trace(undefined, step)
            there = other.steps[index].image
            for offset, size in step.image.runs((step.image.data != there.data) & (undefined.data == 0)):
                yield Mismatch(index, offset, 0, index, offset, size)
            yield from Comparison(first, index, other, 0, index).results()


def _differing(one: Image, other: Image) -> Image:
    """An image with ones where two images differ, zeros elsewhere. One pattern is the complement of the other."""
    return one.like((one.data != other.data).astype(np.uint8))


def _trace(undefined: Image, step: RunStep) -> None:
    """Propagate undefined bytes along the copies of an operation."""
    assert step.expected is not None
    before = undefined.copy()
    for copy in step.expected.copies:
        undefined.rows(copy.destination, *copy.shape)[:] = before.rows(copy.source, *copy.shape)

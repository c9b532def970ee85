"""Poison patterns: what nobody wrote decides nothing.

The case runs once more with the complement of its poison in every gap and guard, and in the target's own buffers. That
run must be right by itself, and it may differ from the first only in bytes that a trace of the copies leads back to
bytes nobody wrote. A branch on padding, or a sum over a buffer that was never filled, is right at most once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from harness.memory import Image
from harness.oracles.relations.base import (
    Comparison,
    Mismatch,
    Relation,
    ResultMismatch,
    Run,
    Step,
    Variant,
    whole_memory,
)


class PoisonPatterns(Relation):
    name = "poison-patterns"
    summary = "with the other poison pattern, but for bytes that nobody wrote"

    def variants(self, first: Run) -> Sequence[Variant]:
        contents = first.case.contents
        other = msgspec.structs.replace(contents, poison="B" if contents.poison == "A" else "A")
        return [Variant(msgspec.structs.replace(first.case, contents=other), fresh=True, judged=True)]

    def mismatches(self, first: Run, others: Sequence[Run]) -> Iterator[Mismatch | ResultMismatch]:
        (other,) = others
        undefined = _differing(first.before, other.before)
        for index, step in enumerate(first.steps):
            _trace(undefined, step)
            compare = Comparison(first, index, other, 0, index)
            for mismatch in compare.ties(whole_memory(first.plan)):
                yield from _defined_parts(mismatch, undefined)
            yield from compare.results()


def _differing(one: Image, other: Image) -> Image:
    """An image of ones where two images differ, zeros elsewhere. One pattern is the complement of the other."""
    return Image(
        [
            (start, (mine != theirs).astype(np.uint8))
            for (start, mine), (_, theirs) in zip(one.segments, other.segments, strict=True)
        ]
    )


def _trace(undefined: Image, step: Step) -> None:
    """Let undefined bytes follow the copies of an operation."""
    assert step.expected is not None
    before = undefined.copy()
    for copy in step.expected.copies:
        for run in range(copy.runs):
            at = run * copy.run_stride
            source = before.view(copy.source + at, copy.run_bytes)
            undefined.view(copy.destination + at, copy.run_bytes)[:] = source


def _defined_parts(mismatch: Mismatch, undefined: Image) -> Iterator[Mismatch]:
    defined = undefined.view(mismatch.offset, mismatch.size) == 0
    (where,) = np.nonzero(defined)
    if not len(where):
        return
    for run in np.split(where, np.nonzero(np.diff(where) > 1)[0] + 1):
        at = int(run[0])
        yield dataclasses.replace(
            mismatch, offset=mismatch.offset + at, variant_offset=mismatch.variant_offset + at, size=len(run)
        )

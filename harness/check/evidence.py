"""Evidence is a byte difference told in the words of the domain, and the signature that names its kind.

A fault rarely damages one thing only. The signature is that of the gravest difference, by a fixed order, so that the
same fault gives the same signature whatever the layout put next to it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

import numpy as np

from harness.case import Case, operation_name
from harness.case.operations.results import ACCEPTED_OUT
from harness.check.operation_run import OperationRun, Task
from harness.check.outcome import Difference, Evidence, Signature
from harness.check.raised import Owns, said, trail
from harness.kernels.executors.base import AccessFault
from harness.memory import Image, MemoryPlan, Place, describe
from harness.oracles.expected import Expected

SHOWN_DIFFERENCES = 8
SHOWN_BYTES = 16
EXAMINED_RUNS = 1000
"""A copy of the wrong block differs in thousands of runs; the first ones tell what it is."""

_STATES = ("temporal", "conv")
OBJECTS = ("padding", "guard", "private", "table", *_STATES)
"""Kinds of objects in the order in which differences count; arguments of operations come last."""


def rank(kind: str) -> int:
    """How far behind the gravest kind of object `kind` comes."""
    return OBJECTS.index(kind) if kind in OBJECTS else len(OBJECTS)


def signature_at(case: Case, index: int, oracle: str, violation: str, kind: str) -> Signature:
    """The signature of a failure of operation `index` at an object of a kind: SD or DS matters to conv states alone."""
    conv_layout = case.layout.conv_layout if kind == "conv" else "-"
    return Signature(operation_name(case.program[index]), oracle, violation, kind, conv_layout)


def byte_evidence(run: OperationRun) -> tuple[Signature, Evidence] | None:
    """Compare the whole memory after an operation; None if every byte is right."""
    expected = run.expected
    if expected is None:
        return None
    runs = list(expected.image.differences(run.found))
    if not runs:
        return None
    written = _WrittenSpans(expected)
    differences = [
        _difference(run, violation, start, size, expected.image)
        for start, size, violation in _split(runs[:EXAMINED_RUNS], written)
    ]
    differences.sort(key=_grave)
    first = differences[0]
    signature = signature_at(run.case, run.index, "memory", first.violation, first.object)
    total = sum(size for _, size in runs)
    action = "holds the wrong bytes" if first.violation == "wrong-bytes" else "changed, and nobody asked for it"
    summary = f"{first.place}: {action}; expected {first.expected}, found {first.found}"
    return signature, Evidence(summary, tuple(differences[:SHOWN_DIFFERENCES]), total)


def access_evidence(run: OperationRun) -> tuple[Signature, Evidence] | None:
    """Accesses that a checking executor saw outside everything the kernel may touch, or misaligned."""
    faults = [fault for fault in run.faults if not fault.violation.startswith("undefined")]
    if not faults:
        return None
    told = []
    for fault in faults:
        place = _place_of_fault(run.case, run.plan, fault)
        access = "store" if fault.is_store else "load"
        what = (
            f"{fault.width}-byte {access} into read-only {place.name}"
            if fault.violation == "read-only"
            else f"{fault.violation} {fault.width}-byte {access} at {place.name}"
        )
        told.append((place, f"{what}; {fault.where}"))
    # A store is graver than a load, but no other kind: only so many faults are kept, and which come first is chance.
    first = min(range(len(told)), key=lambda i: (faults[i].violation, not faults[i].is_store, i))
    signature = signature_at(run.case, run.index, "access", faults[first].violation, told[first][0].kind)
    details = tuple(text for _, text in told[:SHOWN_DIFFERENCES])
    return signature, Evidence(told[first][1], (), sum(fault.width for fault in faults), details)


def _place_of_fault(case: Case, plan: MemoryPlan, fault: AccessFault) -> Place:
    """What an access hit: of a wide one, the first byte that belongs to no object, if there is one."""
    places = [describe(case, plan, fault.offset + i) for i in range(fault.width)]
    nowhere = ("padding", "guard", "private") if fault.violation == "out-of-bounds" else ()
    return next((place for place in places if place.kind in nowhere), places[0])


def _count_evidence(task: Task, expected: list[int], found: list[int]) -> tuple[Signature, Evidence]:
    """Accepted counts that a V1 postprocess left wrong in its context."""
    wrong = [i for i, (want, got) in enumerate(zip(expected, found, strict=True)) if want != got]
    signature = signature_at(task.case, task.index, "memory", "wrong-count", "accepted")
    details = tuple(f"accepted_out[{i}]: expected {expected[i]}, found {found[i]}" for i in wrong)
    rows = len(task.operation.rows)
    where = f"batch row {wrong[0]}" if wrong[0] < rows else f"entry {wrong[0]}, past the {rows} rows of the batch"
    summary = f"accepted count of {where}: expected {expected[wrong[0]]}, found {found[wrong[0]]}"
    return signature, Evidence(summary, (), 4 * len(wrong), details[:SHOWN_DIFFERENCES])


def result_evidence(run: OperationRun) -> tuple[Signature, Evidence] | None:
    """Compare what the host can see beside memory; entries that the oracle does not give must stay as they were."""
    expected, seen = run.expected, run.seen
    if expected is None:
        return None
    if expected.raises is not None and not seen.refused:
        signature = signature_at(run.case, run.index, "host", "missing-error", "call")
        return signature, Evidence(f"no error, but one has to name {expected.raises!r}")
    if seen.late_writes:
        signature = signature_at(run.case, run.index, "host", "late-write", "transfer")
        what = ", ".join(dict.fromkeys(seen.late_writes))
        return signature, Evidence(f"the host wrote {what} before the copy to the device had happened")
    for result, found in seen.after.items():
        if result in expected.undefined:
            continue
        wanted = seen.before[result].copy()
        changes = expected.results.get(result, {})
        wanted[list(changes)] = list(changes.values())
        if np.array_equal(wanted, found):
            continue
        if result == ACCEPTED_OUT:
            return _count_evidence(run, wanted.tolist(), found.tolist())
        (wrong,) = np.nonzero(wanted != found)
        details = tuple(f"{result}[{i}]: expected {wanted[i]}, found {found[i]}" for i in wrong[:SHOWN_DIFFERENCES])
        first = int(wrong[0])
        violation = "wrong-result" if first in changes else "stray-result"
        whose = "" if first in changes else ", which nobody asked to change"
        signature = signature_at(run.case, run.index, "host", violation, result)
        return signature, Evidence(f"{details[0]}{whose}", (), 0, details)
    return None


def private_evidence(run: OperationRun) -> tuple[Signature, Evidence] | None:
    """A write past the target's own buffers."""
    if not run.damaged:
        return None
    signature = signature_at(run.case, run.index, "memory", "stray-write", "private")
    return signature, Evidence(f"bytes around the target's own buffers changed: {', '.join(run.damaged)}")


def exception_evidence(task: Task, error: BaseException, owns: Owns, changed: bool) -> tuple[Signature, Evidence]:
    """Production code raised where it had to work, or after it had `changed` device memory."""
    what = "half-way" if changed else "call"
    signature = signature_at(task.case, task.index, "exception", type(error).__name__, what)
    when = ", after device memory had changed" if changed else ""
    return signature, Evidence(f"production code raised {said(error)}{when}", details=trail(error, owns))


def refused_reachable_evidence(task: Task, error: BaseException) -> tuple[Signature, Evidence]:
    """A contract of the target rules out a case that a scheduler can produce."""
    signature = signature_at(task.case, task.index, "exception", "refusal", "call")
    return signature, Evidence(f"the target does not take a reachable case: {' '.join(str(error).split())}")


class _WrittenSpans:
    """The bytes that an operation had to write, for telling a wrong write from a stray one."""

    def __init__(self, expected: Expected) -> None:
        spans = [
            (copy.destination + i * copy.run_stride, copy.run_bytes)
            for copy in expected.copies
            for i in range(copy.runs)
        ]
        spans += [(array.start, array.size) for array in expected.arrays]
        self._spans = sorted(spans)
        self._starts = [start for start, _ in self._spans]

    def part(self, offset: int) -> tuple[bool, int | None]:
        """Whether `offset` had to be written, and where that stops being so (None: never)."""
        i = bisect_right(self._starts, offset) - 1
        if i >= 0 and offset < self._starts[i] + self._spans[i][1]:
            return True, self._starts[i] + self._spans[i][1]
        return False, self._starts[i + 1] if i + 1 < len(self._starts) else None


def _split(runs: list[tuple[int, int]], written: _WrittenSpans) -> Iterator[tuple[int, int, str]]:
    for start, size in runs:
        cursor, end = start, start + size
        while cursor < end:
            inside, until = written.part(cursor)
            stop = end if until is None else min(end, until)
            yield cursor, stop - cursor, "wrong-bytes" if inside else "stray-write"
            cursor = stop


def _difference(run: OperationRun, violation: str, start: int, size: int, expected: Image) -> Difference:
    place = describe(run.case, run.plan, start)
    shown = min(size, SHOWN_BYTES)
    return Difference(
        violation=violation,
        object=place.kind,
        place=place.name,
        offset=start,
        size=size,
        before=run.before.view(start, shown).tobytes().hex(" "),
        expected=expected.view(start, shown).tobytes().hex(" "),
        found=run.found.view(start, shown).tobytes().hex(" "),
    )


def _grave(difference: Difference) -> tuple[int, int, int]:
    """Order of gravity: a write where no state lies, then a wrong copy, then a write over some other state.

    The first needs no neighbour to show, the last depends on what the neighbour is.
    """
    stray, kind = difference.violation == "stray-write", difference.object
    group = 1 if not stray else 2 if kind in _STATES else 0
    return (group, rank(kind), difference.offset)

"""Evidence describes a byte difference in terms of the domain, with the signature that names its kind.

A fault rarely damages only one thing. The signature is that of the most severe difference, by a fixed order, so that
the same fault gives the same signature, independent of its neighbours in the layout.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import numpy as np

from harness.case import Case, operation_name
from harness.case.operations.results import ACCEPTED_OUT
from harness.check.operation_run import OperationRun, Task
from harness.check.outcome import CodePlace, Difference, Evidence, Signature
from harness.check.raised import Owns, code_lines, trail, type_and_message
from harness.code_lines import CodeLine, source_name
from harness.kernels.executors.base import AccessFault
from harness.memory import Image, MemoryPlan, Place, describe, describe_run
from harness.oracles.expected import Expected
from harness.text import counted

HOST_ORACLE = "host"
"""The oracle of what host code sees."""
SHOWN_DIFFERENCES = 8
SHOWN_BYTES = 16
SHOWN_PROGRAMS = 3
CHANCE_BYTES = 3
"""Between two runs that are one, at most this many bytes are equal by chance."""
CHANCE_SHARE = 32
"""Of a run, at most one byte in this many is equal by chance; one always may be."""
EXAMINED_RUNS = 1000
"""A copy of the wrong block differs in thousands of runs; the first ones show what it is."""

_STATES = ("temporal", "conv")
OBJECTS = ("padding", "guard", "private", "table", *_STATES)
"""Kinds of objects in the order in which differences count; arguments of operations come last."""


def rank(kind: str) -> int:
    """The place of `kind` in the order of severity; 0 is the most severe kind of object."""
    return OBJECTS.index(kind) if kind in OBJECTS else len(OBJECTS)


def signature_at(case: Case, index: int, oracle: str, violation: str, kind: str) -> Signature:
    """The signature of a failure of operation `index` at an object of a kind: SD or DS matters only for conv states."""
    conv_layout = case.layout.conv_layout if kind == "conv" else "-"
    return Signature(operation_name(case.program[index]), oracle, violation, kind, conv_layout)


def code_places(role: str, code: Sequence[CodeLine], launched: Sequence[CodeLine], owns: Owns) -> tuple[CodePlace, ...]:
    """The lines of an access and of what led to it: inside the kernel, and on the host as far as it is the code under
    test."""
    lines = [(role if number == 0 else "call", line) for number, line in enumerate(code)]
    lines += [("launch", line) for line in launched if owns(line.file)]
    return tuple(CodePlace(source_name(line.file), line.line, line.function, role) for role, line in lines)


def launched_at(launched: Sequence[CodeLine], owns: Owns) -> str:
    """The end of a sentence: `; launched at vllm/v1/worker/mamba_utils.py:1177 (run_fused_postprocess)`; empty if no
    line of the code under test is known."""
    own = next((line for line in launched if owns(line.file)), None)
    return "" if own is None else f"; launched at {own}"


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
        for start, size, violation in _joined(run, _split(runs[:EXAMINED_RUNS], written), written)
    ]
    differences.sort(key=_grave)
    first = differences[0]
    signature = signature_at(run.case, run.index, "memory", first.violation, first.object)
    total = sum(size for _, size in runs)
    summary = f"{first.place}: {_action(run, first)}; expected {first.expected}, found {first.found}"
    return signature, Evidence(summary, tuple(differences[:SHOWN_DIFFERENCES]), total)


def explained_summary(run: OperationRun, first: Difference) -> str:
    """The sentence of a difference of which is known whose bytes lie there, or who wrote them: it says that in place of
    the bytes. Empty if neither is known."""
    known = [text for text in (first.contents, first.writer) if text]
    return "; ".join([f"{first.place}: {_action(run, first)}", *known]) if known else ""


def _action(run: OperationRun, difference: Difference) -> str:
    """What happened to a run of bytes, as the end of a sentence."""
    if difference.violation != "wrong-bytes":
        return "changed, and nobody asked for it"
    return "left as before" if _is_untouched(run, difference.offset, difference.size) else "holds the wrong bytes"


def access_evidence(run: OperationRun) -> tuple[Signature, Evidence] | None:
    """Accesses that a checking executor reported as out of bounds or misaligned."""
    faults = [fault for fault in run.faults if not fault.violation.startswith("undefined")]
    if not faults:
        return None
    places = [_place_of_fault(run.case, run.plan, fault) for fault in faults]
    # A store is more severe than a load of the same kind. Kinds have no order of severity: only the first faults are
    # kept, and which come first is arbitrary.
    first = min(range(len(faults)), key=lambda i: (faults[i].violation, not faults[i].is_store, i))
    signature = signature_at(run.case, run.index, "access", faults[first].violation, places[first].kind)
    alike: dict[tuple[object, ...], list[int]] = {}
    for i, fault in enumerate(faults):
        kind = (fault.violation, fault.is_store, fault.width, fault.kernel, fault.code, fault.launched, places[i].kind)
        alike.setdefault(kind, []).append(i)
    groups = sorted(alike.values(), key=lambda group: first not in group)
    groups[0].sort(key=lambda i: i != first)
    details = tuple(
        _faults_in_words(run, [faults[i] for i in group], [places[i] for i in group])
        for group in groups[:SHOWN_DIFFERENCES]
    )
    lines = code_places("access", faults[first].code, faults[first].launched, run.owns)
    return signature, Evidence(details[0], (), sum(fault.width for fault in faults), details, lines)


def _faults_in_words(run: OperationRun, faults: Sequence[AccessFault], places: Sequence[Place]) -> str:
    """Faults of one line of a kernel, which hit objects of one kind: where the first of them hit what, and which
    programs made them."""
    first, place = faults[0], places[0]
    access = "store" if first.is_store else "load"
    what = (
        f"{first.width}-byte {access} into read-only {place.name}"
        if first.violation == "read-only"
        else f"{first.violation} {first.width}-byte {access} at {place.name}"
    )
    elsewhere = len({fault.offset for fault in faults}) - 1
    what += f" and {counted(elsewhere, 'other place')}" if elsewhere else ""
    programs = list(dict.fromkeys(fault.program for fault in faults))
    by = first.where if len(programs) == 1 else f"{first.line_of_kernel}, {_programs_in_words(programs)}"
    return f"{what}; {by}{launched_at(first.launched, run.owns)}"


def _programs_in_words(programs: Sequence[tuple[int, int, int]]) -> str:
    more = len(programs) - SHOWN_PROGRAMS
    shown = ", ".join(map(str, programs[:SHOWN_PROGRAMS]))
    return f"{counted(len(programs), 'program')}: {shown}{f' and {more} more' if more > 0 else ''}"


def _place_of_fault(case: Case, plan: MemoryPlan, fault: AccessFault) -> Place:
    """The place that an access hit: for a wide one, that of the first byte that belongs to no object, if any."""
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
    """Compare what the host can see in addition to memory; entries that the oracle does not give must not change."""
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
        wanted = _wanted(run, result)
        if wanted is None or np.array_equal(wanted, found):
            continue
        if result == ACCEPTED_OUT:
            return _count_evidence(run, wanted.tolist(), found.tolist())
        (wrong,) = np.nonzero(wanted != found)
        details = tuple(f"{result}[{i}]: expected {wanted[i]}, found {found[i]}" for i in wrong[:SHOWN_DIFFERENCES])
        first, changes = int(wrong[0]), expected.results.get(result, {})
        violation = "wrong-result" if first in changes else "stray-result"
        whose = "" if first in changes else ", which must not change"
        signature = signature_at(run.case, run.index, HOST_ORACLE, violation, result)
        return signature, Evidence(f"{details[0]}{whose}", (), 0, details)
    return None


def _wanted(run: OperationRun, result: str) -> np.ndarray | None:
    """What a result must hold; None where that is not defined."""
    expected = run.expected
    if expected is None or result in expected.undefined:
        return None
    wanted = run.seen.before[result].copy()
    changes = expected.results.get(result, {})
    wanted[list(changes)] = list(changes.values())
    return wanted


def wrong_results(run: OperationRun) -> list[tuple[str, int]]:
    """The entries that the evidence of a wrong result shows, in order, by the name of the result."""
    for result, found in run.seen.after.items():
        wanted = _wanted(run, result)
        if wanted is not None and not np.array_equal(wanted, found):
            return [(result, int(entry)) for entry in np.nonzero(wanted != found)[0][:SHOWN_DIFFERENCES]]
    return []


def private_evidence(run: OperationRun) -> tuple[Signature, Evidence] | None:
    """The evidence of a write past the target's own buffers."""
    if not run.damaged:
        return None
    signature = signature_at(run.case, run.index, "memory", "stray-write", "private")
    return signature, Evidence(f"bytes around the target's own buffers changed: {', '.join(run.damaged)}")


def exception_evidence(task: Task, error: BaseException, owns: Owns, changed: bool) -> tuple[Signature, Evidence]:
    """The evidence of an exception where production code had to work, or after it had `changed` device memory."""
    what = "half-way" if changed else "call"
    signature = signature_at(task.case, task.index, "exception", type(error).__name__, what)
    when = ", after device memory had changed" if changed else ""
    places = tuple(CodePlace(source_name(at.file), at.line, at.function, "raise") for at in code_lines(error, owns))
    text = f"production code raised {type_and_message(error)}{when}"
    return signature, Evidence(text, details=trail(error, owns), places=places)


def refused_reachable_evidence(task: Task, error: BaseException) -> tuple[Signature, Evidence]:
    """The evidence where a contract of the target excludes a case that a scheduler can produce."""
    signature = signature_at(task.case, task.index, "exception", "refusal", "call")
    return signature, Evidence(f"the target does not take a reachable case: {' '.join(str(error).split())}")


class _WrittenSpans:
    """The bytes that an operation had to write, to distinguish a wrong write from an out-of-bounds one."""

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
        """Whether `offset` had to be written, and the offset at which this answer changes (None: never)."""
        i = bisect_right(self._starts, offset) - 1
        if i >= 0 and offset < self._starts[i] + self._spans[i][1]:
            return True, self._starts[i] + self._spans[i][1]
        return False, self._starts[i + 1] if i + 1 < len(self._starts) else None

    def all_like(self, first: int, last: int) -> bool:
        """Whether all bytes from `first` to `last` had to be written, or none of them."""
        inside, until = self.part(first)
        while until is not None and until <= last:
            now, until = self.part(until)
            if now != inside:
                return False
        return True


def _split(runs: list[tuple[int, int]], written: _WrittenSpans) -> Iterator[tuple[int, int, str]]:
    for start, size in runs:
        cursor, end = start, start + size
        while cursor < end:
            inside, until = written.part(cursor)
            stop = end if until is None else min(end, until)
            yield cursor, stop - cursor, "wrong-bytes" if inside else "stray-write"
            cursor = stop


def _joined(
    run: OperationRun, runs: Iterator[tuple[int, int, str]], written: _WrittenSpans
) -> Iterator[tuple[int, int, str]]:
    """Runs that only a few bytes part, equal by chance, as one run: one byte in 256 is."""
    held: tuple[int, int, str] | None = None
    equal = 0
    for start, size, violation in runs:
        if held is not None:
            first, length, before = held
            gap = start - (first + length)
            whole = start + size - first
            if (
                violation == before
                and gap <= CHANCE_BYTES
                and equal + gap <= max(1, whole // CHANCE_SHARE)
                and written.all_like(first + length - 1, start)
                and _is_untouched(run, first, length) == _is_untouched(run, start, size)
            ):
                held, equal = (first, whole, violation), equal + gap
                continue
            yield held
        held, equal = (start, size, violation), 0
    if held is not None:
        yield held


def _is_untouched(run: OperationRun, start: int, size: int) -> bool:
    return bool(np.array_equal(run.found.view(start, size), run.before.view(start, size)))


def _difference(run: OperationRun, violation: str, start: int, size: int, expected: Image) -> Difference:
    place = describe_run(run.case, run.plan, start, size)
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
    """Order of severity: a write where no state lies, then a wrong copy, then a write over some other state.

    The first is visible without a neighbour, the last depends on the neighbour.
    """
    outside, kind = difference.violation == "stray-write", difference.object
    group = 1 if not outside else 2 if kind in _STATES else 0
    return (group, rank(kind), difference.offset)

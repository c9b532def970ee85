"""An explanation adds to the evidence of a failure what takes longer to work out: who wrote wrong bytes last, where
bytes like them lie, which lines of the target lead there, and which deviation from the specification reproduces it.

It is made for a failure that is kept, never for one that a campaign or shrinking only counts.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from harness.check.assigned_lines import AssignedLines
from harness.check.contents import contents_in_words
from harness.check.evidence import code_places, explained_summary, wrong_results
from harness.check.operation_run import OperationRun
from harness.check.operations.registry import handling
from harness.check.outcome import CodePlace, Diagnosis, Difference, Evidence, Signature
from harness.check.spans import array_spans, layout_spans
from harness.check.suspects import Suspects, scope_of
from harness.check.writers import Writer, last_writer, writer_in_words
from harness.code_lines import source_name
from harness.oracles.before import Before
from harness.oracles.diagnosis.deviation import Form
from harness.oracles.diagnosis.diagnose import (
    deviations_of,
    families,
    fitted_numbers,
    in_words,
    names_of,
    refuted_by,
    without_fitted,
)
from harness.oracles.diagnosis.situation import Raced, Refused, Situation, Touchable, moves_of
from harness.oracles.expected import Expected
from harness.oracles.races import find_races

NEVER_ASSIGNED = ", and no line of the code under test assigned it another value"

MOST_BYTES = 32 << 20
"""The memory of a larger case is not compared with deviations: each of them would take a tenth of a second."""

MOST_COPIES = 1 << 14
"""Nor is a case with more copies than this, times the requests that they belong to: some deviations are tried for each
request, and each makes all the copies. At this number that takes some seconds, at thirty times as many minutes, which
would count as a hang of the kernel."""


def explained(run: OperationRun, evidence: Evidence, assigned: AssignedLines | None = None) -> Evidence:
    """The evidence of a run with its explanation, without a diagnosis. `run` may have recorded nothing: then no writer
    is known. `assigned`: the lines that assigned what the host sees, where that differs."""
    if assigned is not None:
        evidence = _with_lines(run, evidence, assigned)
    writers = [last_writer(run, difference.offset) if run.recorded else None for difference in evidence.differences]
    differences = tuple(map(lambda one, by: _difference(run, one, by), evidence.differences, writers))
    places = evidence.places or _places(run, writers)
    summary = evidence.summary
    if differences and summary.startswith(f"{differences[0].place}: "):
        summary = explained_summary(run, differences[0]) or summary
    return msgspec.structs.replace(evidence, summary=summary, differences=differences, places=places)


def _with_lines(run: OperationRun, evidence: Evidence, assigned: AssignedLines) -> Evidence:
    """The line that last assigned each number of the evidence, as a place and in words."""
    wrong = wrong_results(run)
    if not wrong or len(wrong) != len(evidence.details):
        return evidence  # a missing error, or a view that was written late
    lines = [assigned.line(*one) for one in wrong]
    words = [NEVER_ASSIGNED if line is None else f", last assigned at {line}" for line in lines]
    details = tuple(map(str.__add__, evidence.details, words))
    places = tuple(dict.fromkeys(CodePlace(source_name(at.file), at.line, at.function, "assign") for at in lines if at))
    return msgspec.structs.replace(
        evidence, summary=evidence.summary + words[0], details=details, places=evidence.places or places
    )


def diagnosed(
    run: OperationRun, signature: Signature, evidence: Evidence, suspects: Suspects, *, watched: bool
) -> Evidence:
    """The evidence of a run with a diagnosis, which the cases behind `suspects` narrow; without one where that would
    take too long. `watched`: accesses that are not allowed were refused."""
    if run.expected is None or _is_large(run):
        return evidence
    found = deviations(run, watched=watched)
    narrowed, cases = suspects.narrowed(signature, scope_of(run), found)
    names = without_fitted(names_of(narrowed))
    fitted = fitted_numbers(_situation(run, run.expected, watched=watched), names)
    sentence = in_words(names, cases, fitted)
    return msgspec.structs.replace(evidence, diagnosis=Diagnosis(names, sentence, cases, families(names)))


def deviations(run: OperationRun, *, watched: bool, among: Collection[str] | None = None) -> tuple[Form, ...] | None:
    """The deviations that reproduce what a run left, `among` those of these names (None: all). None if its bytes and
    results say nothing, or if it would take too long to compare them."""
    if run.expected is None or _is_large(run):
        return None
    return deviations_of(_situation(run, run.expected, watched=watched), among)


def refuted(run: OperationRun, forms: Collection[Form], *, watched: bool) -> tuple[Form, ...]:
    """Those of `forms` that a run which was right would have shown."""
    if run.expected is None or _is_large(run):
        return ()
    return refuted_by(_situation(run, run.expected, watched=watched), forms)


def _is_large(run: OperationRun) -> bool:
    """Whether comparing a run with all deviations would take too long."""
    requests = len(moves_of(run.operation, run.case.layout.block_size))
    return len(run.found.data) > MOST_BYTES or requests * requests * len(run.plan.base.states) > MOST_COPIES


def _situation(run: OperationRun, expected: Expected, *, watched: bool) -> Situation:
    """What the catalogue of deviations is compared with."""
    before = Before(run.case, run.plan, run.index, run.before)
    allowed = [*layout_spans(run.plan.base), *array_spans(run.plan, run.index)]
    checks = run.case.execution.checks
    return Situation(
        before=before,
        operation=run.operation,
        expected=expected,
        found=run.found,
        results=run.seen.before,
        found_results=run.seen.after,
        expect=lambda operation: handling(operation).expect(before),
        touchable=[Touchable(span.start, span.size, span.writable) for span in allowed],
        watched=watched,
        refused=[
            Refused(fault.offset, fault.width, fault.is_store)
            for fault in run.faults
            if not fault.violation.startswith("undefined")
        ],
        races=[
            Raced(race.offset, race.between)
            for launch in run.recorded
            if "races" in checks
            for race in find_races(launch)
            if "identical-stores" in checks or not race.identical
        ],
        races_watched=bool(run.recorded) and "races" in checks,
        late_writes=run.seen.late_writes,
    )


def _difference(run: OperationRun, difference: Difference, writer: Writer | None) -> Difference:
    return msgspec.structs.replace(
        difference,
        writer=writer_in_words(run, difference.offset, difference.size, writer) if run.recorded else "",
        contents=contents_in_words(run, difference.offset, difference.size),
    )


def _places(run: OperationRun, writers: list[Writer | None]) -> tuple[CodePlace, ...]:
    """The lines of the first store that is known; of a launch that stored nothing there, the host's line."""
    for writer in writers:
        if writer is not None:
            return code_places("store", writer.code, writer.launched, run.owns)
    launched = next((launch.launched for launch in run.recorded if launch.launched), ())
    return code_places("store", (), launched, run.owns)

"""A sequence campaign draws sequences, runs them on one release, and keeps, shrinks and classifies what they violate.

Which sequences run depends on the seed, the pins and how far the budget reaches; a journal beside the findings says how
far, so that a campaign that was stopped goes on where it was and ends with the same set.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path

import msgspec

from harness import __version__
from harness.campaign.harness_failures import HarnessFailures
from harness.campaign.saving import NotSaved, save
from harness.case.sequence import SequenceCase, decode_sequence, encode_sequence
from harness.check.outcome import Signature
from harness.check.worker_process import WorkerError, is_from_outside
from harness.generators.sequences.events import SEQUENCE_GENERATOR_VERSION
from harness.repro import Origin, ShrinkRecord
from harness.repro.sequences import SequenceRepro, sequence_repro_name
from harness.sequences.classifying import classify, same_finding
from harness.sequences.controls import Controls
from harness.sequences.counters import below_threshold
from harness.sequences.journal import Entry, Journal
from harness.sequences.kernels import Beside, KernelChoice
from harness.sequences.known import KNOWN, TOGETHER
from harness.sequences.process import SequenceProcess, lost_result
from harness.sequences.recipe import SequenceRecipe, sequence_at
from harness.sequences.result import RESULTS, RunResult
from harness.sequences.shrinking import shrink_sequence
from harness.sequences.verdicts import evidence_of, signature_of

BLOCK = 8
"""Sequences handed out at once."""

JOURNAL = "sequences.journal"


class SequenceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a campaign is asked to do. One of `sequences`, `steps` and `seconds` ends it. `kernels`: run bytes,
    too. `cases`: a folder for the kernel cases that the sequences amount to."""

    target: str
    recipe: SequenceRecipe
    controls: Controls
    out: Path
    kernels: KernelChoice | None = None
    cases: Path | None = None
    sequences: int | None = None
    steps: int | None = None
    seconds: float | None = None
    workers: int = 1
    shrink: bool = True
    resume: bool = False
    fail_fast: bool = False


class SequenceFinding(msgspec.Struct):
    """What was found; the sequence with the lowest index stands for all that look alike. `repro` is None for what
    could not be saved: such a finding is as it was drawn."""

    signature: str
    issue: str | None
    summary: str
    first_sequence: int
    sequences: int
    events: int
    repro: str | None


class SequenceSummary(msgspec.Struct):
    """What a campaign comes to; the object that `harness run --ops sequences --json` prints."""

    target: str
    seed: int
    sequences: int
    steps: int
    steps_per_second: float
    seconds: float
    skipped: dict[str, int]
    counters: dict[str, int]
    fixes: list[str]
    findings: list[SequenceFinding]
    missing: list[str]
    harness_failures: int
    exit_status: int


class _Found(msgspec.Struct):
    """What stands for a key of signature and issue: the lowest index, and how many sequences there are."""

    index: int
    case: SequenceCase
    result: RunResult
    sequences: int = 1


class SequenceCampaign:
    """Runs once. `say` takes lines for the user as they come, `notice` those that are no results (default: `say`).
    `unsaved` is the error, afterwards, if something could not be written."""

    def __init__(
        self, settings: SequenceSettings, say: Callable[[str], None], notice: Callable[[str], None] | None = None
    ) -> None:
        self._settings, self._say, self._notice = settings, say, notice or say
        self._entries: dict[int, Entry] = {}
        self._found: dict[tuple[str, str | None], _Found] = {}
        self._kept: list[SequenceFinding] = []
        self._failures = HarnessFailures(settings.out / "harness-failures", settings.recipe.seed, noun="sequence")
        self._next = 0
        self._start = time.monotonic()
        self.unsaved: OSError | None = None

    def run(self) -> SequenceSummary:
        """Raises WorkerRefused if the release cannot be driven, WorkerError if the harness fails outside any
        sequence. What cannot be written ends the campaign, not the summary: see `unsaved`."""
        settings = self._settings
        journal = Journal(settings.out / JOURNAL, _identity(settings))
        earlier = journal.read() if settings.resume else None
        if settings.resume and earlier is None:
            self._notice(f"{settings.out / JOURNAL} is not there, or another campaign's: this one begins anew")
        settings.out.mkdir(parents=True, exist_ok=True)
        if settings.cases is not None:
            settings.cases.mkdir(parents=True, exist_ok=True)
        beside = Beside(settings.kernels, None if settings.cases is None else str(settings.cases.resolve()))
        children = [SequenceProcess(settings.target, beside) for _ in range(settings.workers)]
        try:
            for child in children:
                child.wait_ready()
            self._start = time.monotonic()
            journal.open(go_on=earlier is not None)
            for entry in earlier or ():
                self._entries[entry.index] = entry
                if entry.signature is not None:
                    self._run_again(children[0], entry)
            for entry in self._judge_all(children):
                journal.append(entry)
            self._keep(children[0])
        except NotSaved as not_saved:
            self.unsaved = not_saved.error
        finally:
            journal.close()
            for child in children:
                child.close()
        return self._summary()

    def _run_again(self, child: SequenceProcess, entry: Entry) -> None:
        """A violation of an earlier part of the campaign: its sequence follows from its index."""
        case = sequence_at(self._settings.recipe, entry.index)
        try:
            result = child.check(case, self._settings.controls)
        except WorkerError as error:
            self._notice(self._fail(entry.index, error, case))
            child.restart()
        else:
            self._note(entry.index, case, result)

    def _fail(self, index: int, error: WorkerError, case: SequenceCase | None = None) -> str:
        """Keep what the harness itself failed in; a line that tells it."""
        recipe = self._settings.recipe
        draw = partial(_encoded, recipe, index) if case is None else partial(encode_sequence, case)
        return self._failures.record(index, str(error), draw)

    # Judging.

    def _judge_all(self, children: list[SequenceProcess]) -> Iterator[Entry]:
        ends: dict[SequenceProcess, int] = {}
        for child in children:
            self._hand_out(child, ends)
        while ends:
            ready = wait([child.connection for child in ends], timeout=1.0)
            for child in list(ends):
                if child.connection not in ready:
                    continue
                try:
                    yield from self._hear(child, ends)
                except WorkerError as error:
                    self._record_harness_failure(child, error, ends)

    def _hear(self, child: SequenceProcess, ends: dict[SequenceProcess, int]) -> Iterator[Entry]:
        kind, content = child.receive()
        if kind == "done":
            self._hand_out(child, ends)
        elif kind == "result":
            index, text, case = content
            yield self._record(index, RESULTS.decode(text), case)
        else:
            index = child.at
            child.restart()
            lost = lost_result(content)
            if is_from_outside(content):
                self._notice(f"a child was ended from outside ({content}): sequence {index} is run again")
                case_again = sequence_at(self._settings.recipe, index)
                lost = child.check(case_again, self._settings.controls, again=False)
            if index not in self._entries:  # else it was lost on its way to the next one
                yield self._record(index, lost, None)
            self._go_on(child, index + 1, ends)

    def _record_harness_failure(
        self, child: SequenceProcess, error: WorkerError, ends: dict[SequenceProcess, int]
    ) -> None:
        """Keep the sequence, and go on after it: a child in which something broke is replaced.

        It gets no entry, so that a campaign which goes on later, with the harness mended, runs it.
        """
        if error.index is None:
            raise error
        self._notice(self._fail(error.index, error))
        if self._failures.too_many:
            self._notice(f"the campaign ends early: the harness failed {self._failures.count} times")
            ends.pop(child)
            return
        child.restart()
        self._go_on(child, error.index + 1, ends)

    def _go_on(self, child: SequenceProcess, start: int, ends: dict[SequenceProcess, int]) -> None:
        """Give a new child the rest of the block that the one before it had."""
        end = ends[child]
        if start < end:
            child.send_range(self._settings.recipe, start, end, self._settings.controls)
        else:
            self._hand_out(child, ends)

    def _hand_out(self, child: SequenceProcess, ends: dict[SequenceProcess, int]) -> None:
        ends.pop(child, None)
        settings = self._settings
        while self._next in self._entries:
            self._next += 1
        start = self._next
        end = start + BLOCK
        if settings.sequences is not None:
            end = min(end, settings.sequences)
        end = next((index for index in range(start, end) if index in self._entries), end)  # of an earlier part
        over = start >= end
        over = over or self._failures.too_many
        over = over or (settings.steps is not None and self._steps() >= settings.steps)
        over = over or (settings.seconds is not None and time.monotonic() - self._start >= settings.seconds)
        if over or (settings.fail_fast and self._found):
            return
        self._next = end
        ends[child] = end
        child.send_range(settings.recipe, start, end, settings.controls)

    def _steps(self) -> int:
        return sum(entry.steps for entry in self._entries.values())

    def _record(self, index: int, result: RunResult, text: bytes | None) -> Entry:
        key: tuple[str, str | None] = ("", None)
        if result.violation is not None:
            case = decode_sequence(text) if text else sequence_at(self._settings.recipe, index)
            key = self._note(index, case, result)
        entry = Entry(
            index,
            result.steps,
            result.seconds,
            result.counters,
            result.skipped,
            key[0] or None,
            key[1],
        )
        self._entries[index] = entry
        return entry

    def _note(self, index: int, case: SequenceCase, result: RunResult) -> tuple[str, str | None]:
        if result.violation is None:
            return "", None
        signature = str(signature_of(result.violation))
        issue = None
        if not self._settings.controls.faults and result.violation.kind.partition("-")[0] != "process":
            issue = self._likely(case)
        key = (signature, issue)
        known = self._found.get(key)
        if known is None:
            self._found[key] = _Found(index, case, result)
        else:
            known.sequences += 1
            if index < known.index:
                known.index, known.case, known.result = index, case, result
        if known is None:
            self._say(f"sequence {index}: {result.violation.summary}")
        return key

    def _likely(self, case: SequenceCase) -> str | None:
        """Known issues whose fix is off and that the case can reach at all: told apart when findings are kept."""
        off = [issue.name for issue in KNOWN if issue.fix not in self._settings.controls.fixes and issue.reaches(case)]
        return TOGETHER.join(off) or None

    # Keeping findings.

    def _keep(self, child: SequenceProcess) -> None:
        """Classify each finding by the fix that takes it away, one for each signature and issue; shrink and save."""
        sorted_out: dict[tuple[str, str | None], _Found] = {}
        for (signature, _), found in sorted(self._found.items(), key=lambda item: item[1].index):
            try:
                issue = classify(child, found.case, self._settings.controls)
            except WorkerError as error:
                self._notice(f"{signature} stays unclassified: {self._fail(found.index, error, found.case)}")
                child.restart()
                issue = None
            earlier = sorted_out.setdefault((signature, issue), found)
            if earlier is not found:
                earlier.sequences += found.sequences
        self._found = sorted_out
        for (signature, issue), found in sorted_out.items():
            self._kept.append(self._keep_one(child, signature, issue, found))

    def _keep_one(self, child: SequenceProcess, signature: str, issue: str | None, found: _Found) -> SequenceFinding:
        settings, case, result = self._settings, found.case, found.result
        record = None
        if settings.shrink:
            try:
                shrunk = shrink_sequence(case, same_finding(child, signature, issue, settings.controls))
                result = child.check(shrunk.case, settings.controls)
            except WorkerError as error:
                self._notice(f"{signature} stays as drawn: {self._fail(found.index, error, case)}")
                child.restart()
            else:
                case = shrunk.case
                record = ShrinkRecord(
                    executions=shrunk.executions, seconds=round(shrunk.seconds, 3), complete=shrunk.complete
                )
        assert result.violation is not None
        repro = make_repro(settings, case, result, found.index, issue, record)
        path = settings.out / sequence_repro_name(repro)
        save(path, repro)  # type: ignore[arg-type]
        return _finding(signature, issue, msgspec.structs.replace(found, case=case, result=result), path)

    def _findings(self) -> list[SequenceFinding]:
        """What was kept, and after it what could not be."""
        if self.unsaved is None:
            return self._kept
        kept = {(finding.signature, finding.issue) for finding in self._kept}
        rest = sorted(self._found.items(), key=lambda item: item[1].index)
        return self._kept + [_finding(*key, found, None) for key, found in rest if key not in kept]

    def _summary(self) -> SequenceSummary:
        findings = self._findings()
        counters: Counter[str] = Counter()
        skipped: Counter[str] = Counter()
        for entry in self._entries.values():
            counters.update(entry.counters)
            if entry.skipped is not None:
                skipped[entry.skipped] += 1
        steps = self._steps()
        seconds = sum(entry.seconds for entry in self._entries.values())
        missing = below_threshold(counters, steps, self._settings.recipe.pins.spec_method != "none")
        if self._settings.kernels is not None and steps and not counters["kernel launches"]:
            missing.append("no kernel was launched")
        if not steps:
            missing.append("no step was run")
        settings = self._settings
        return SequenceSummary(
            target=settings.target,
            seed=settings.recipe.seed,
            sequences=len(self._entries),
            steps=steps,
            steps_per_second=round(steps / seconds, 1) if seconds else 0.0,
            seconds=round(time.monotonic() - self._start, 2),
            skipped=dict(sorted(skipped.items())),
            counters=dict(sorted(counters.items())),
            fixes=list(settings.controls.fixes),
            findings=findings,
            missing=missing,
            harness_failures=self._failures.count,
            exit_status=2 if self.unsaved else 4 if self._failures.count else 1 if findings else 3 if missing else 0,
        )


def _encoded(recipe: SequenceRecipe, index: int) -> bytes:
    return encode_sequence(sequence_at(recipe, index))


def _finding(signature: str, issue: str | None, found: _Found, path: Path | None) -> SequenceFinding:
    assert found.result.violation is not None
    return SequenceFinding(
        signature,
        issue,
        found.result.violation.summary,
        found.index,
        found.sequences,
        len(found.case.events),
        None if path is None else str(path),
    )


def make_repro(
    settings: SequenceSettings,
    case: SequenceCase,
    result: RunResult,
    index: int | None,
    issue: str | None,
    record: ShrinkRecord | None,
) -> SequenceRepro:
    """The file that carries a finding."""
    assert result.violation is not None
    signature: Signature = signature_of(result.violation)
    return SequenceRepro(
        signature=signature,
        evidence=evidence_of(result.violation, result.trace),
        origin=Origin(
            target=settings.target,
            executor="symbolic" if settings.kernels is None else settings.kernels.executor,
            harness_version=__version__,
            generator_version=SEQUENCE_GENERATOR_VERSION,
            seed=settings.recipe.seed,
            index=index,
        ),
        fixes=settings.controls.fixes,
        faults=settings.controls.faults,
        issue=issue,
        kernels=None if settings.kernels is None else settings.kernels.target,
        shrink=record,
        sequence=case,
    )


def _identity(settings: SequenceSettings) -> dict[str, object]:
    """What must be equal for a campaign to go on where another stopped."""
    return {
        "target": settings.target,
        "recipe": msgspec.to_builtins(settings.recipe),
        "controls": msgspec.to_builtins(settings.controls),
        "kernels": msgspec.to_builtins(settings.kernels),
        "generator": SEQUENCE_GENERATOR_VERSION,
    }

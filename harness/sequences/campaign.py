"""A sequence campaign draws sequences, runs them on one release, and keeps, shrinks and classifies what they violate.

Which sequences run depends on the seed, the pins and how far the budget reaches; a journal beside the findings says how
far, so that a campaign that was stopped goes on where it was and ends with the same set.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait
from pathlib import Path

import msgspec

from harness import __version__
from harness.case.sequence import SequenceCase, decode_sequence
from harness.check.outcome import Signature
from harness.check.worker_process import is_from_outside
from harness.generators.sequences.events import SEQUENCE_GENERATOR_VERSION
from harness.repro import Origin, ShrinkRecord, write_repro
from harness.repro.sequences import SequenceRepro, sequence_repro_name
from harness.sequences.controls import Controls
from harness.sequences.counters import below_threshold
from harness.sequences.kernels import Beside, KernelChoice
from harness.sequences.known import KNOWN, TOGETHER, KnownIssue, fixes_of
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


class Entry(msgspec.Struct, frozen=True):
    """A line of the journal: one sequence that was run."""

    index: int
    steps: int
    seconds: float
    counters: dict[str, int]
    skipped: str | None = None
    signature: str | None = None
    issue: str | None = None


class SequenceFinding(msgspec.Struct):
    """What was found; the sequence with the lowest index stands for all that look alike."""

    signature: str
    issue: str | None
    summary: str
    first_sequence: int
    sequences: int
    events: int
    repro: str


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
    exit_status: int


class SequenceCampaign:
    """Runs once. `say` takes lines for the user as they come."""

    def __init__(self, settings: SequenceSettings, say: Callable[[str], None]) -> None:
        self._settings, self._say = settings, say
        self._entries: dict[int, Entry] = {}
        self._found: dict[tuple[str, str | None], tuple[int, SequenceCase, RunResult, int]] = {}
        self._next = 0
        self._start = time.monotonic()

    def run(self) -> SequenceSummary:
        """Raises WorkerRefused if the release cannot be driven, WorkerError if the harness fails."""
        settings = self._settings
        journal = settings.out / JOURNAL
        known = _read_journal(journal, settings) if settings.resume else []
        settings.out.mkdir(parents=True, exist_ok=True)
        if settings.cases is not None:
            settings.cases.mkdir(parents=True, exist_ok=True)
        beside = Beside(settings.kernels, None if settings.cases is None else str(settings.cases.resolve()))
        children = [SequenceProcess(settings.target, beside) for _ in range(settings.workers)]
        try:
            for child in children:
                child.wait_ready()
            self._start = time.monotonic()
            for entry in known:
                self._entries[entry.index] = entry
                if entry.signature is not None:
                    self._run_again(children[0], entry)
            with journal.open("ab" if known else "wb") as stream:
                if not known:
                    stream.write(msgspec.json.encode(_identity(settings)) + b"\n")
                for entry in self._judge_all(children):
                    stream.write(msgspec.json.encode(entry) + b"\n")
                    stream.flush()
            findings = list(self._keep(children[0]))
        finally:
            for child in children:
                child.close()
        return self._summary(findings)

    def _run_again(self, child: SequenceProcess, entry: Entry) -> None:
        """A violation of an earlier part of the campaign: its sequence follows from its index."""
        case = sequence_at(self._settings.recipe, entry.index)
        self._note(child, entry.index, case, child.check(case, self._settings.controls))

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
                kind, content = child.receive()
                if kind == "done":
                    self._hand_out(child, ends)
                elif kind == "result":
                    index, text, case = content
                    yield self._record(children, index, RESULTS.decode(text), case)
                else:
                    index, end = child.at, ends.pop(child)
                    child.restart()
                    lost = lost_result(content)
                    if is_from_outside(content):
                        self._say(f"a child was ended from outside ({content}): sequence {index} is run again")
                        case_again = sequence_at(self._settings.recipe, index)
                        lost = child.check(case_again, self._settings.controls, again=False)
                    if index not in self._entries:  # else it was lost on its way to the next one
                        yield self._record(children, index, lost, None)
                    if index + 1 < end:
                        ends[child] = end
                        child.send_range(self._settings.recipe, index + 1, end, self._settings.controls)
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
        over = start >= end
        over = over or (settings.steps is not None and self._steps() >= settings.steps)
        over = over or (settings.seconds is not None and time.monotonic() - self._start >= settings.seconds)
        if over or (settings.fail_fast and self._found):
            return
        self._next = end
        ends[child] = end
        child.send_range(settings.recipe, start, end, settings.controls)

    def _steps(self) -> int:
        return sum(entry.steps for entry in self._entries.values())

    def _record(self, children: list[SequenceProcess], index: int, result: RunResult, text: bytes | None) -> Entry:
        key: tuple[str, str | None] = ("", None)
        if result.violation is not None:
            case = decode_sequence(text) if text else sequence_at(self._settings.recipe, index)
            key = self._note(None, index, case, result)
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

    def _note(
        self, child: SequenceProcess | None, index: int, case: SequenceCase, result: RunResult
    ) -> tuple[str, str | None]:
        if result.violation is None:
            return "", None
        signature = str(signature_of(result.violation))
        issue = None
        if not self._settings.controls.faults and result.violation.kind.partition("-")[0] != "process":
            issue = self._likely(case)
        key = (signature, issue)
        known = self._found.get(key)
        count = 1 if known is None else known[3] + 1
        if known is None or index < known[0]:
            self._found[key] = (index, case, result, count)
        else:
            self._found[key] = (*known[:3], count)
        if known is None:
            self._say(f"sequence {index}: {result.violation.summary}")
        return key

    def _likely(self, case: SequenceCase) -> str | None:
        """Known issues whose fix is off and that the case can reach at all: told apart when findings are kept."""
        off = [issue.name for issue in KNOWN if issue.fix not in self._settings.controls.fixes and issue.reaches(case)]
        return TOGETHER.join(off) or None

    # Keeping findings.

    def _keep(self, child: SequenceProcess) -> Iterator[SequenceFinding]:
        """Classify each finding by the fix that takes it away, one for each signature and issue; shrink and save."""
        settings = self._settings
        sorted_out: dict[tuple[str, str | None], tuple[int, SequenceCase, RunResult, int]] = {}
        for (signature, _), (index, case, result, count) in sorted(self._found.items(), key=lambda item: item[1][0]):
            issue = classify(child, case, settings.controls)
            key = (signature, issue)
            earlier = sorted_out.get(key)
            if earlier is None:
                sorted_out[key] = (index, case, result, count)
            else:
                sorted_out[key] = (*earlier[:3], earlier[3] + count)
        for (signature, issue), (index, case, result, count) in sorted_out.items():
            yield self._keep_one(child, signature, issue, index, case, result, count)

    def _keep_one(
        self,
        child: SequenceProcess,
        signature: str,
        issue: str | None,
        index: int,
        case: SequenceCase,
        result: RunResult,
        count: int,
    ) -> SequenceFinding:
        settings = self._settings
        record = None
        if settings.shrink:
            shrunk = shrink_sequence(case, same_finding(child, signature, issue, settings.controls))
            case = shrunk.case
            result = child.check(case, settings.controls)
            record = ShrinkRecord(
                executions=shrunk.executions, seconds=round(shrunk.seconds, 3), complete=shrunk.complete
            )
        assert result.violation is not None
        repro = make_repro(settings, case, result, index, issue, record)
        path = settings.out / sequence_repro_name(repro)
        write_repro(path, repro)  # type: ignore[arg-type]
        return SequenceFinding(signature, issue, result.violation.summary, index, count, len(case.events), str(path))

    def _summary(self, findings: list[SequenceFinding]) -> SequenceSummary:
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
            exit_status=1 if findings else 3 if missing else 0,
        )


def classify(child: SequenceProcess, case: SequenceCase, controls: Controls) -> str | None:
    """The known issue whose fix alone takes the violation away, or the fewest that do together; None if none do."""
    off = [issue for issue in KNOWN if issue.fix not in controls.fixes and issue.reaches(case)]

    def clear(issues: list[KnownIssue]) -> bool:
        fixes = (*controls.fixes, *(issue.fix for issue in issues))
        return child.check(case, msgspec.structs.replace(controls, fixes=fixes)).violation is None

    for issue in off:
        if clear([issue]):
            return issue.name
    if len(off) < 2 or not clear(off):
        return None
    for issue in list(off):
        rest = [other for other in off if other is not issue]
        if clear(rest):
            off = rest
    return TOGETHER.join(issue.name for issue in off)


def same_finding(
    child: SequenceProcess, signature: str, issue: str | None, controls: Controls
) -> Callable[[SequenceCase], bool]:
    """Whether a case shows the same: the signature, and for a known issue that its fix takes it away."""
    fixes = fixes_of(issue)
    fixed = msgspec.structs.replace(controls, fixes=(*controls.fixes, *fixes)) if fixes else None

    def holds(case: SequenceCase) -> bool:
        violation = child.check(case, controls).violation
        if violation is None or str(signature_of(violation)) != signature:
            return False
        return fixed is None or child.check(case, fixed).violation is None

    return holds


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


def _read_journal(path: Path, settings: SequenceSettings) -> list[Entry]:
    """Entries of an earlier part of the same campaign; none if it was another one. A torn last line is left out."""
    if not path.is_file():
        return []
    lines = path.read_bytes().split(b"\n")
    if not lines or lines[0] != msgspec.json.encode(_identity(settings)):
        return []
    entries = []
    for line in lines[1:]:
        try:
            entries.append(msgspec.json.decode(line, type=Entry))
        except msgspec.DecodeError:
            continue
    return entries

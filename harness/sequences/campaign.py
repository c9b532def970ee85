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

from harness.campaign.harness_failures import HarnessFailures
from harness.campaign.saving import NotSaved
from harness.case.sequence import SequenceCase, decode_sequence, encode_sequence
from harness.check.silence import LOOK_SECONDS
from harness.check.worker_process import WorkerError, is_from_outside
from harness.reports.words import counted
from harness.sequences.counters import below_threshold
from harness.sequences.findings import AS_DRAWN, NOTHING, Findings, Key
from harness.sequences.journal import Entry, Journal
from harness.sequences.kernels import Beside
from harness.sequences.process import SequenceProcess, lost_result, reason_in
from harness.sequences.recipe import SequenceRecipe, sequence_at
from harness.sequences.result import RESULTS, RunResult
from harness.sequences.settings import SequenceSettings, identity_of
from harness.sequences.summary import SequenceSummary

BLOCK = 8
"""Sequences handed out at once."""

LOSSES_LIMIT = 50
"""A campaign that loses children again and again ends after so many losses: each costs loading the release."""

FIRST_LOSSES = 5
"""A campaign ends after so many sequences if all of them took their child down, and in one way: that is the answer, and
more of it would cost ten seconds each. A release that loses one sequence in ten has one chance in 100,000 to end like
that, one that loses every second 3 in 100."""

JOURNAL = "sequences.journal"

_FAILURES = "harness-failures"
_WRITTEN = ("sequence-*.json", f"{AS_DRAWN}/sequence-*.json", f"{_FAILURES}/*-sequence-*")
"""What a campaign of sequences leaves in its folder beside the journal; one of kernel cases may write there as well."""


class SequenceCampaign:
    """Runs once. `say` takes lines for the user as they come, `notice` those that are no results (default: `say`).
    `unsaved` is the error, afterwards, if something could not be written.

    Raises CannotGoOn, with nothing done, if there is no earlier part to resume."""

    def __init__(
        self, settings: SequenceSettings, say: Callable[[str], None], notice: Callable[[str], None] | None = None
    ) -> None:
        self._settings, self._notice = settings, notice or say
        self._journal = Journal(settings.out / JOURNAL, identity_of(settings))
        self._earlier = self._journal.read() if settings.resume else None
        self._entries: dict[int, Entry] = {}
        self._failures = HarnessFailures(settings.out / _FAILURES, settings.recipe.seed, noun="sequence")
        self._findings = Findings(settings, say, self._notice, self._fail)
        self._next = 0
        self._losses = 0
        self._ended_early: str | None = None
        """Why, if it does: nothing is handed out any more."""
        self._idle_fixes: list[str] = []
        self._again: set[int] = set()
        """Sequences whose child was ended from outside once."""
        self._start = time.monotonic()
        self.unsaved: OSError | None = None

    def run(self) -> SequenceSummary:
        """Raises WorkerRefused if the release cannot be driven, WorkerError if the harness fails outside any
        sequence. What cannot be written ends the campaign, not the summary: see `unsaved`."""
        settings, journal, earlier = self._settings, self._journal, self._earlier
        settings.out.mkdir(parents=True, exist_ok=True)
        if settings.cases is not None:
            settings.cases.mkdir(parents=True, exist_ok=True)
        beside = Beside(settings.kernels, None if settings.cases is None else str(settings.cases.resolve()))
        children = [
            SequenceProcess(settings.target, beside, settings.limit, self._notice) for _ in range(settings.workers)
        ]
        try:
            for child in children:
                child.wait_ready()
            if settings.controls.fixes:
                self._idle_fixes = children[0].without_effect(settings.controls.fixes)
            idle = [fix for fix in self._idle_fixes if fix in settings.named_fixes]
            if idle:
                self._notice(f"{settings.target} has nothing that these fixes change: {', '.join(idle)}")
            self._start = time.monotonic()
            if earlier is not None:
                self._notice(_where_it_goes_on(earlier))
            aside = journal.open(go_on=earlier is not None, beside=_WRITTEN)
            if aside is not None:
                self._notice(f"what an earlier campaign left in {settings.out} is in {aside} from now on")
            self._take_over(children[0], earlier or [])
            self._end_if_hopeless()
            for entry in self._judge_all(children):
                journal.append(entry)
            self._findings.keep(children[0])
        except NotSaved as not_saved:
            self.unsaved = not_saved.error
        finally:
            journal.close()
            for child in children:
                child.close()
        self._findings.tell_rest()
        return self._summary()

    @property
    def so_far(self) -> str:
        """What an interrupted campaign leaves, and how to go on with it; nothing before its first sequence was run."""
        if not self._entries:
            return ""
        violations = sum(entry.signature is not None for entry in self._entries.values())
        what = (
            f"{counted(violations, 'violation')}, as drawn in {self._settings.out / AS_DRAWN}"
            if violations
            else "no violation"
        )
        how = "the same command" if self._settings.resume else "the same command and --resume-sequences"
        return f"{what}, after {counted(len(self._entries), 'sequence')}; go on with {how}"

    def _take_over(self, child: SequenceProcess, earlier: list[Entry]) -> None:
        """Entries of an earlier part of the campaign. Of violations that look alike, the first is run again."""
        alike: dict[Key, list[Entry]] = {}
        for entry in sorted(earlier, key=lambda entry: entry.index):
            self._entries[entry.index] = entry
            if entry.signature is not None:
                alike.setdefault((entry.signature, entry.issue), []).append(entry)
        for key, entries in alike.items():
            while entries:
                if self._run_again(child, entries.pop(0)) == key:
                    self._findings.count(key, len(entries))
                    break

    def _run_again(self, child: SequenceProcess, entry: Entry) -> Key:
        """A violation of an earlier part of the campaign; signature and issue that it has now. Its sequence follows
        from its index, and so does all else, unless its child was lost with it."""
        index = entry.index
        now = NOTHING
        recipe, controls, before = self._settings.recipe, self._settings.controls, str(entry.signature)
        lost = reason_in(before)
        if lost is not None:
            return self._findings.note(index, sequence_at(recipe, index), lost_result(lost))
        child.send_range(recipe, index, index + 1, controls)
        try:
            while (answer := child.receive())[0] != "done":
                kind, content = answer
                if kind == "lost":
                    now = self._findings.note(index, sequence_at(recipe, index), lost_result(content, child.last_words))
                    break
                if content[2] is not None:
                    now = self._findings.note(index, decode_sequence(content[2]), RESULTS.decode(content[1]))
        except WorkerError as error:
            self._notice(self._fail(index, error))
            child.restart()
            return now
        if now[0] != before:
            self._notice(f"sequence {index} gave {before} before, and {now[0] or 'no violation'} now")
        return now

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
            ready = wait([child.connection for child in ends], timeout=LOOK_SECONDS)
            for child in list(ends):
                try:
                    if child.connection in ready:
                        yield from self._hear(child, ends)
                    elif child.overdue():
                        yield from self._record_loss(child, child.kill_hung(), ends)
                except WorkerError as error:
                    self._record_harness_failure(child, error, ends)

    def _hear(self, child: SequenceProcess, ends: dict[SequenceProcess, int]) -> Iterator[Entry]:
        answer = child.hear()
        if answer is None:
            return
        kind, content = answer
        if kind == "done":
            self._hand_out(child, ends)
        elif kind == "result":
            index, text, case = content
            yield self._record(index, RESULTS.decode(text), case)
        else:
            yield from self._record_loss(child, content, ends)

    def _record_loss(self, child: SequenceProcess, reason: str, ends: dict[SequenceProcess, int]) -> Iterator[Entry]:
        """A lost child is what its sequence gave, and the campaign goes on after it with another child.

        Somebody else may have ended it: then the sequence is run once more before that counts.
        """
        index, last_words = child.at, child.last_words
        following = index + 1
        if index in self._entries:
            pass  # it was lost on its way to the next one
        elif is_from_outside(reason) and index not in self._again:
            self._again.add(index)
            self._notice(f"a child was ended from outside ({reason}): sequence {index} is run again")
            following = index
        else:
            yield self._record(index, lost_result(reason, last_words), None)
        self._losses += 1
        self._end_if_hopeless()
        self._go_on(child, following, ends)

    def _end_if_hopeless(self) -> None:
        """Hand out no more sequences if they would give nothing but what these gave."""
        if self._ended_early is not None:
            return
        run = [entry for entry in self._entries.values() if entry.skipped is None]
        signatures = {entry.signature or "" for entry in run}
        reason = reason_in(signatures.pop()) if len(signatures) == 1 else None
        if self._failures.too_many:
            self._ended_early = f"the harness failed {self._failures.count} times"
        elif reason is not None and len(run) >= FIRST_LOSSES:
            self._ended_early = f"each of the first {len(run)} sequences took its process down ({reason})"
        elif self._losses >= LOSSES_LIMIT:
            self._ended_early = f"{self._losses} times a child was lost"
        if self._ended_early is not None:
            self._notice(f"the campaign ends early: {self._ended_early}")

    def _record_harness_failure(
        self, child: SequenceProcess, error: WorkerError, ends: dict[SequenceProcess, int]
    ) -> None:
        """Keep the sequence, and go on after it: a child in which something broke is replaced.

        It gets no entry, so that a campaign which goes on later, with the harness mended, runs it.
        """
        if error.index is None:
            raise error
        self._notice(self._fail(error.index, error))
        self._end_if_hopeless()
        if not self._is_over:
            child.restart()
        self._go_on(child, error.index + 1, ends)

    def _go_on(self, child: SequenceProcess, start: int, ends: dict[SequenceProcess, int]) -> None:
        """Give a child the rest of the block that it was in, unless the campaign is over."""
        end = ends[child]
        if start < end and not self._is_over:
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
        if start >= end or self._is_over:
            return
        self._next = end
        ends[child] = end
        child.send_range(settings.recipe, start, end, settings.controls)

    @property
    def _is_over(self) -> bool:
        """Whether no more sequences are to be run, however many there are."""
        settings = self._settings
        spent = settings.seconds is not None and time.monotonic() - self._start >= settings.seconds
        return spent or self._ended_early is not None or (settings.fail_fast and len(self._findings) > 0)

    def _record(self, index: int, result: RunResult, text: bytes | None) -> Entry:
        key = NOTHING
        if result.violation is not None:
            case = decode_sequence(text) if text else sequence_at(self._settings.recipe, index)
            key = self._findings.note(index, case, result)
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

    def _summary(self) -> SequenceSummary:
        findings = self._findings.summary()
        counters: Counter[str] = Counter()
        skipped: Counter[str] = Counter()
        for entry in self._entries.values():
            counters.update(entry.counters)
            if entry.skipped is not None:
                skipped[entry.skipped] += 1
        steps = sum(entry.steps for entry in self._entries.values())
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
            fixes_without_effect=self._idle_fixes,
            findings=findings,
            missing=missing,
            harness_failures=self._failures.count,
            ended_early=self._ended_early,
            exit_status=2 if self.unsaved else 4 if self._failures.count else 1 if findings else 3 if missing else 0,
        )


def _where_it_goes_on(earlier: list[Entry]) -> str:
    if not earlier:
        return "going on from the start: no sequence was run before"
    return f"going on after sequence {max(entry.index for entry in earlier)}: {len(earlier)} were run before"


def _encoded(recipe: SequenceRecipe, index: int) -> bytes:
    return encode_sequence(sequence_at(recipe, index))

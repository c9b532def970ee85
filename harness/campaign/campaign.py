"""A campaign is one `harness run`: cases are given to workers in blocks, findings are saved, shrunk and counted.

Which cases run depends only on the seed and the number of cases; with a time budget, also on how far it reaches. A
journal says which have run. So a campaign that was stopped or killed can be resumed, and ends with the same findings as
without the interruption."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from typing import Any

import msgspec

from harness.campaign.blocks import Blocks
from harness.campaign.earlier import move_aside, moved
from harness.campaign.events import CampaignFinished, CampaignStarted, CaseJudged, Event, Notice
from harness.campaign.findings import Findings
from harness.campaign.folder import AS_DRAWN, CampaignFolder
from harness.campaign.harness_failures import FAILURES, HarnessFailures
from harness.campaign.history import DamagedHistory, Seen, read_history, write_history
from harness.campaign.journal import SHARD, Journal
from harness.campaign.remembered import Remembered
from harness.campaign.settings import Settings, useful_workers
from harness.campaign.situation import journaled
from harness.campaign.stats import FoundSoFar, Phase, Stats, Watch, now, rarest_regime, unreached_seconds
from harness.campaign.time_limit import TimeLimit
from harness.campaign.times import Times
from harness.files import NotSaved, require_writable
from harness.interruption import INTERRUPTION
from harness.refusal import Refusal
from harness.subject.entry import Entry, Tally
from harness.subject.registry import subject_classes
from harness.subject.standing import Standing
from harness.subject.subject import Ended, Kept, Key, Subject
from harness.subject.summary import Summary, ending_of
from harness.text import counted
from harness.worker.losses import WorkerError, WorkerLost, WorkerRefused
from harness.worker.messages import CaseResult, RangeDone
from harness.worker.process import WorkerProcess
from harness.worker.silence import LOOK_SECONDS
from harness.worker.waiting import Readiness

STOP_SECONDS = 5.0
"""How long an interrupted campaign waits for the cases that are being judged."""


class NotDivisible(Refusal):
    """A campaign that has no shards; the message is one line that says why."""


class Campaign:
    """Runs once. `run` yields events as they happen and ends with CampaignFinished.

    Raises CannotResume, with nothing done, if there is no earlier part to resume; OSError if the journal is not a
    regular file; NotDivisible if a shard was asked for and a case does not follow from its number.

    `progress` is given a line every half minute, from another thread.
    """

    def __init__(
        self, subject: Subject[Any, Any], settings: Settings, progress: Callable[[str], None] | None = None
    ) -> None:
        self._subject, self._settings, self._progress = subject, settings, progress
        shard = settings.shard
        if shard is not None and not subject.resumable:
            raise NotDivisible("--shard: here a case depends on those before it, so that there are no parts")
        identity = subject.identity() if shard is None else {**subject.identity(), SHARD: str(shard)}
        self._folder = CampaignFolder(settings.out)
        self._journal = Journal(settings.out / subject.journal, identity, subject.noun, subject.current_identity)
        self._remembered = Remembered(self._folder.remembered_file(subject.name))
        self._journal.require_regular()
        starts = settings.or_start and self._journal.is_blank and settings.seconds != 0
        resumes = settings.resume and not starts
        settings = self._settings = msgspec.structs.replace(settings, resume=resumes)
        earlier = self._journal.read() if resumes else []
        self._earlier = [entry for entry in earlier if entry.fits(subject.regimes)]
        """The entries of an earlier part: two for a case whose worker was lost after it had answered."""
        self._done = {entry.index for entry in self._earlier}
        """Indices of cases of an earlier part, which are not run again."""
        self._notices: list[str] = [] if settings.expectations is None else settings.expectations.notices
        self._tally = Tally(subject.regimes)
        self._failures = HarnessFailures(settings.out / FAILURES, subject.seed, subject.replay_options(), subject.noun)
        self._findings = Findings(subject, settings, self._keep_candidate)
        self._judged = 0
        """The number of cases that this part judged."""
        self._losses = 0
        self._blocks = Blocks(subject.block, settings.cases, settings.shard, self._done)
        self._early: str | None = None
        """Why it ends early, if it does: no more cases are given to workers."""
        self._missing: list[str] = []
        """What earlier parts had and this one has not, in words."""
        self._waiting: set[Key] = set()
        """Findings of earlier parts that were not judged again yet."""
        self._silent: list[WorkerProcess] = []
        """Workers that did not end their range when they were asked to."""
        self._phase: Phase = "loading"
        self._workers = 0
        self._exit_status: int | None = None
        self._limit = TimeLimit(None)
        self._times = Times()
        self._started = now()
        self._start = time.monotonic()

    def run(self) -> Generator[Event, None, None]:
        """Raises WorkerRefused if the target or executor is not available, WorkerError if the harness fails outside any
        case, OSError if something cannot be written: at once if that is known before the first case, else after the
        summary. After an interrupt KeyboardInterrupt is raised, after the summary if there is something to sum up, and
        at once after a second one."""
        settings, subject = self._settings, self._subject
        require_writable(settings.out)
        self._folder.require_unused()
        most = subject.most_workers or settings.workers
        number = self._workers = min(most, useful_workers(settings, subject.block))
        workers = [subject.new_worker(self._notices.append) for _ in range(number)]
        for worker in workers:
            worker.limit_memory(settings.memory)
        failed: OSError | WorkerRefused | None = None
        interrupted = False
        seconds: float | None = None
        with contextlib.ExitStack() as stack:
            try:
                for worker in workers:
                    yield from map(Notice, worker.loading())
                subject.prepare(workers[0], self._notices.append)
                title = subject.title(settings.limit(subject.noun), counted(number, "worker"))
                yield CampaignStarted(title, number, self._stats)
                self._start = self._times.loaded()
                sorts = settings.shrink or subject.classifies
                self._limit = TimeLimit(settings.seconds, settings.began, sorts=sorts)
                stack.enter_context(INTERRUPTION.summed_up())
                try:
                    self._open(stack)
                    yield from self._take_over(workers[0])
                    self._phase = "judging"
                    self._times.judging_begins()
                    yield from self._judge_all(workers)
                    self._times.judging_ends()
                    seconds = time.monotonic() - self._start
                    answering = [worker for worker in workers if worker not in self._silent]
                    lost = self._losses > 0 or bool(self._silent)
                    known = self._remembered.recall(subject) if settings.resume else 0
                    resumed = known < self._tally.cases - self._judged
                    subject.finish(answering, self._notices.append, lost=lost, resumed=resumed)
                    self._remembered.write(subject, known + (0 if self._silent else self._judged), self._notices.append)
                    yield from self._pass_on_notices()
                    if INTERRUPTION.came:
                        raise KeyboardInterrupt
                    self._phase = "sorting out"
                    for worker in self._silent:
                        worker.drop()
                    chosen = next(iter(answering), workers[0])
                    yield from self._findings.finish(chosen, self._limit.sorting_until)
                except KeyboardInterrupt:
                    if INTERRUPTION.at_once:
                        raise
                    interrupted, self._early = True, INTERRUPTION.word
                    self._findings.leave_unsorted()
                except NotSaved as not_saved:
                    failed = not_saved.error
                except WorkerRefused as refused:
                    if not self._judged:  # nothing to sum up
                        raise
                    failed = refused
                yield from self._pass_on_notices()
            finally:
                self._phase = "ended"
                self._times.end()
                if INTERRUPTION.came:
                    self._early = INTERRUPTION.word
                self._journal.close()
                for worker in workers:
                    worker.close()
            whole = time.monotonic() - self._start
            found = self._findings.summary()
            ended = Ended(
                self._judged,
                whole if seconds is None else seconds,
                whole,
                self._failures.count,
                self._early,
                bool(failed),
                INTERRUPTION.status if interrupted else None,
                tuple(self._missing_now()),
                self._standing(found, complete=not interrupted),
                len(found),
                self._failed_fast,
            )
            summary = subject.summary(self._tally, found, ended)
            self._exit_status = summary.exit_status
            self._keep_ending(summary)
            self._write_history(found, getattr(summary, "base", None))
        yield from self._pass_on_notices()
        yield CampaignFinished(summary)
        if interrupted:
            raise KeyboardInterrupt
        if failed is not None:
            raise failed

    @property
    def so_far(self) -> str:
        """What an interrupted campaign leaves, and how to resume it; empty before its first case was judged."""
        left = self.left
        return f"{left}; {self._settings.how_to_resume}" if left and self._subject.resumable else left

    @property
    def left(self) -> str:
        """What an interrupted campaign leaves; empty before its first case was judged."""
        if not self._tally.cases:
            return ""
        noun, violations = self._subject.noun, self._tally.violations
        drawn = self._settings.out / AS_DRAWN
        where = f", as drawn in '{drawn}'" if drawn.exists() else ""  # an earlier part's, or a shard's, may not be here
        what = f"findings in {counted(violations, noun)}{where}" if violations else "no finding"
        return f"{what}, after {counted(self._tally.cases, noun)}"

    def _stats(self) -> Stats:
        """How far it is. Called by another thread too: what it reads is copied at once."""
        settings, subject, judged = self._settings, self._subject, self._judged
        elapsed = time.monotonic() - self._start
        findings = [
            FoundSoFar(key.signature, key.issue, kept.index, kept.count, None if kept.path is None else str(kept.path))
            for key, kept in self._findings.so_far()
        ]
        per_second = judged / elapsed if elapsed > 0 else 0.0
        within = subject.regimes_within_reach
        reached = {name: count for name, count in dict(self._tally.reached).items() if name in within}
        judging = self._times.judging
        rate = judged / judging if judging > 0 else 0.0
        return Stats(
            rarest=rarest_regime(reached, self._tally.cases, rate),
            unreached_seconds=unreached_seconds(self._tally.cases, rate) if len(reached) < len(within) else None,
            worker_seconds=self._times.of_workers(self._workers),
            subject=subject.name,
            noun=subject.noun,
            target=subject.target,
            seed=subject.seed,
            shard=None if settings.shard is None else str(settings.shard),
            phase=self._phase,
            workers=self._workers,
            started=self._started,
            updated=now(),
            seconds=round(elapsed, 1),
            limit_cases=settings.cases,
            limit_seconds=settings.seconds,
            judged=self._tally.cases,
            in_this_part=judged,
            per_second=round(per_second, 2),
            skipped=sum(list(self._tally.skipped.values())),
            violations=self._tally.violations,
            regimes_reached=len(reached),
            regimes=len(within),
            findings=findings,
            harness_failures=self._failures.count,
            workers_lost=self._losses,
            ended_early=self._early,
            exit_status=self._exit_status,
        )

    def _keep_ending(self, summary: Summary) -> None:
        """For reports that are made later."""
        try:
            self._folder.write_ending(self._subject.name, ending_of(summary), now())
        except OSError as error:
            self._notices.append(f"how the campaign ended is not saved: {error.filename}: {error.strerror}")

    def _missing_now(self) -> Iterator[str]:
        """What is not in the summary although an earlier part, or a shard, has seen it."""
        yield from self._missing
        if self._waiting:
            yield f"{counted(len(self._waiting), 'finding')} of the earlier part: not judged again"
        if self._settings.seconds == 0 and self._journal.damaged:  # else these cases are judged again
            yield f"what {counted(self._journal.damaged, 'line')} of the journal said, which cannot be read"

    def _standing(self, found: Sequence[tuple[Key, Kept]], complete: bool) -> Standing | None:
        """What the findings count for; None where nothing was known before."""
        expected = self._settings.expectations
        if expected is None:
            return None
        return expected.standing(self._subject, found, journaled(self._settings.out, type(self._subject)), complete)

    def _write_history(self, found: Sequence[tuple[Key, Kept]], base: Any) -> None:
        """Write when each finding was seen first and last, of an earlier campaign too."""
        subject, expected = self._subject, self._settings.expectations
        seen = Seen(now(), subject.target, None if base is None else base.version, subject.seed)
        try:
            before = {**({} if expected is None else expected.history), **read_history(self._folder.history_file)}
            keys = [(subject.name, key.signature, key.issue) for key, _ in found]
            write_history(self._folder.history_file, before, keys, seen)
        except (OSError, DamagedHistory) as error:
            self._notices.append(f"when findings were seen first is not kept: {error}")

    def _pass_on_notices(self) -> Iterator[Event]:
        for text in dict.fromkeys(self._notices):
            yield Notice(text)
        self._notices.clear()

    # An earlier part.

    def _open(self, stack: contextlib.ExitStack) -> None:
        """Take possession of the folder, until `stack` is closed. Raises NotSaved."""
        settings, subject = self._settings, self._subject
        stack.enter_context(self._folder.locked())
        if not settings.resume:
            others = [one for one in subject_classes() if one.name not in (subject.name, *settings.together)]
            aside = move_aside(settings.out, [subject, *others])
            if aside is not None:
                self._notices.append(moved(settings.out, aside))
        if settings.options is not None:  # before the journal: a kill in between leaves what can be resumed
            self._folder.write(settings.options)
        try:
            self._folder.forget_ending(subject.name)
        except OSError as error:
            raise NotSaved("how this campaign ends", error) from error
        self._journal.open(resume=settings.resume)
        watch = Watch(self._folder.stats_file, self._stats, settings.together, self._progress, self._notices.append)
        watch.start()
        stack.callback(watch.close)

    def _take_over(self, worker: WorkerProcess) -> Iterator[Event]:
        """Add the entries of an earlier part. For each finding its first case is judged again."""
        if not self._settings.resume:
            return
        noun, most = self._subject.noun, self._settings.cases
        self._notices += self._journal.notices
        self._failures.take_over(self._done)
        self._notices.append(_where_it_resumes(self._done, noun))
        if most is not None and len(self._done) > most:
            more = f"which is more than {counted(most, noun)}: all of them count"
            self._notices.append(f"the earlier part judged {counted(len(self._done), noun)}, {more}")
        by_key: dict[Key, list[tuple[tuple[int, int], Entry]]] = {}
        seen: set[int] = set()
        for entry in self._earlier:
            if entry.index not in seen:
                seen.add(entry.index)
                self._tally.add(entry)
            if entry.signature is not None:
                rank = self._subject.rank(self._subject.draw(entry.index), entry.index)
                by_key.setdefault(Key(entry.signature, entry.issue), []).append((rank, entry))
        self._earlier = []
        self._waiting = set(by_key)
        if by_key:
            self._notices.append(f"judging again the {noun}s that show what the earlier part found")
        yield from self._pass_on_notices()  # before the findings
        for key, ranked in by_key.items():
            ranked.sort(key=lambda pair: pair[0])
            number = ranked[0][1].index
            while ranked:
                now = yield from self._judge_again(worker, ranked.pop(0)[1])
                if now == key:
                    self._findings.count(key, [rank for rank, _ in ranked])
                    break
            else:
                self._missing.append(f"{key.signature} of {noun} {number}, which did not happen again")
            self._waiting.discard(key)
        self._end_if_hopeless()
        yield from self._pass_on_notices()

    def _judge_again(self, worker: WorkerProcess, entry: Entry) -> Generator[Event, None, Key | None]:
        """Judge a case that failed in an earlier part, drawn again from its index, and return its key now. A case that
        took its worker down may keep its earlier result."""
        subject, index, before = self._subject, entry.index, entry.signature
        assert before is not None
        case = subject.draw(index)
        known = subject.lost_before(before)
        try:
            results = self._results_at(worker, index, again=True) if known is None else [known]
        except WorkerError as error:
            self._notices.append(self._keep_failure(index, error))
            worker.restart()
            return None
        found = [(subject.key(case, result), result) for result in results]
        key, result = next((pair for pair in found if pair[0] is not None and pair[0].signature == before), found[0])
        if key is None or key.signature != before:
            self._notices.append(
                f"{subject.noun} {index} gave {before} before, and {key.signature if key else 'no violation'} now"
            )
        if key is not None:
            event = self._findings.record(index, case, result, key)
            if event is not None:
                yield event
        return key

    def _results_at(self, worker: WorkerProcess, index: int, *, again: bool) -> list[Any]:
        """The results of a case judged as part of a campaign, which may judge some indices more closely: one result,
        and a second one if its worker was lost after it had answered.

        With `again`, the request to a worker that was ended from outside is repeated once. Raises WorkerError.
        """
        results: list[Any] = []
        try:
            worker.send_range(self._subject.recipe_text(), index, index + 1)
            while isinstance(reply := worker.receive(), CaseResult):
                results.append(self._subject.read(reply.result))
        except WorkerLost as lost:
            if not results and lost.doubtful and again:
                self._notices.append(lost.notice)
                return self._results_at(worker, index, again=False)
            if lost.outside_any_case and not lost.doubtful:
                raise WorkerError(f"a worker was lost outside any case ({lost.violation}): {lost.detail}") from lost
            if not (results and lost.doubtful):
                results.append(self._subject.lost(lost))
        assert results, "a range of one case gives a result"
        return results

    # Judging: each worker has a block of cases, or the rest of a block after a loss.

    def _judge_all(self, workers: list[WorkerProcess]) -> Iterator[Event]:
        """After an interrupt, workers finish their cases if that does not take long."""
        busy: dict[WorkerProcess, int] = {}  # the end of the worker's block
        until: float | None = None  # when the cases that are being judged are given up
        readiness = Readiness()
        with INTERRUPTION.held():
            for worker in workers:
                self._assign_block(worker, busy)
            while busy:
                look = min(LOOK_SECONDS, max(0.0, (self._deadline if until is None else until) - time.monotonic()))
                ready = readiness.of([worker.connection for worker in busy], look)
                if until is None and (INTERRUPTION.came or time.monotonic() >= self._deadline):
                    until = time.monotonic() + (STOP_SECONDS if INTERRUPTION.came else self._limit.patience)
                    for worker in busy:
                        worker.stop_range()
                for worker in list(busy):
                    try:
                        try:
                            if worker.connection in ready:
                                yield from self._handle_message(worker, busy)
                            elif worker.overdue():
                                raise worker.kill_hung()
                        except WorkerLost as lost:
                            if INTERRUPTION.came:  # the signal may have reached the worker too
                                self._give_up(worker, busy)
                            else:
                                yield from self._record_loss(worker, lost, busy)
                    except WorkerError as error:
                        self._record_failure(worker, error, busy)
                if self._notices:
                    yield from self._pass_on_notices()
                if until is not None and time.monotonic() >= until:
                    for worker in list(busy):
                        self._give_up(worker, busy)

    def _give_up(self, worker: WorkerProcess, busy: dict[WorkerProcess, int]) -> None:
        """Leave a worker with its case, which counts as not judged."""
        del busy[worker]
        self._silent.append(worker)

    def _assign_block(self, worker: WorkerProcess, busy: dict[WorkerProcess, int], start: int | None = None) -> None:
        """Give a worker the next block, or the rest of the one it was lost in; nothing if the campaign is over."""
        end = busy.pop(worker, 0)
        if start is None or start >= end:
            start, end = self._blocks.take()
        if start == end or self._is_over:
            return
        busy[worker] = end
        with contextlib.suppress(WorkerLost):  # the loss is handled like any other when it is read
            # A worker does not know which findings count.
            fail_fast = self._settings.fail_fast and self._settings.expectations is None
            worker.send_range(self._subject.recipe_text(), start, end, self._deadline, fail_fast=fail_fast)

    @property
    def _is_over(self) -> bool:
        """Whether no more cases are to be judged, even if some are left."""
        return self._failed_fast or self._early is not None or INTERRUPTION.came or time.monotonic() >= self._deadline

    @property
    def _failed_fast(self) -> bool:
        """Whether a finding ends the campaign."""
        if not self._settings.fail_fast:
            return False
        expected, found = self._settings.expectations, self._findings.so_far()
        return (
            bool(found)
            if expected is None
            else any(expected.counts_as_drawn(self._subject, key, kept) for key, kept in found)
        )

    @property
    def _deadline(self) -> float:
        """When no more cases are judged."""
        return self._limit.judging_until(len(self._findings))

    def _handle_message(self, worker: WorkerProcess, busy: dict[WorkerProcess, int]) -> Iterator[Event]:
        answer = worker.poll_message()
        if isinstance(answer, RangeDone):
            self._assign_block(worker, busy)
        elif isinstance(answer, CaseResult):
            subject = self._subject
            case = None if answer.case is None else subject.decode(answer.case)
            yield from self._record(answer.index, case, subject.read(answer.result), answer.drawn)

    def _record_loss(self, worker: WorkerProcess, lost: WorkerLost, busy: dict[WorkerProcess, int]) -> Iterator[Event]:
        """Record the loss as the result of its case, and continue after that case with another worker.

        If the worker may have been ended from outside, the case is judged once more before the loss counts.
        """
        if lost.outside_any_case and not lost.doubtful:
            raise WorkerError(f"a worker was lost outside any case ({lost.violation}): {lost.detail}")
        self._losses += 1
        if lost.doubtful:
            self._notices.append(lost.notice)
        if not (lost.outside_any_case or (lost.answered and lost.doubtful)):
            yield from self._record_lost_case(worker, lost)
        following = lost.index + (not lost.outside_any_case)
        if self._losses >= self._subject.losses_limit:
            self._end_early(f"{self._losses} times a worker was lost")
        self._assign_block(worker, busy, following)

    def _record_lost_case(self, worker: WorkerProcess, lost: WorkerLost) -> Iterator[Event]:
        """Record the result of the case that a worker was judging: the loss, unless a new worker gives a result."""
        subject, index = self._subject, lost.index
        case = self._drawn(worker, index)
        results = [subject.lost(lost)]
        if lost.doubtful:
            results = (
                self._results_at(worker, index, again=False)
                if subject.resumable
                else [subject.judge(worker, case, index=index)]
            )
        for number, result in enumerate(results):
            yield from self._record(index, case, result, counted_before=lost.answered or number > 0)

    def _drawn(self, worker: WorkerProcess, index: int) -> Any:
        """The case that a worker was judging."""
        return self._subject.draw(index) if self._subject.resumable else self._subject.decode(worker.drawn)

    def _record(
        self, index: int, case: Any, result: Any, drawn: float = 0.0, *, counted_before: bool = False
    ) -> Iterator[Event]:
        """Record a result; `case` is None if it did not fail. A finding is saved before its event is yielded."""
        key = None if case is None else self._subject.key(case, result)
        found = None if key is None else self._findings.record(index, case, result, key)
        entry = self._subject.entry(index, case, result, key)
        self._journal.append(entry)
        self._failures.settle(index)
        if not counted_before:
            self._judged += 1
            self._tally.add(entry)
        for name, seconds in {"draw": drawn, **self._subject.spent(result)}.items():
            self._times.add(name, seconds)
        self._end_if_hopeless()
        elapsed = time.monotonic() - self._start
        yield CaseJudged(self._subject.noun, index, result, self._tally.cases, self._judged, elapsed, drawn, entry)
        if found is not None:
            yield found

    # Ends.

    def _end_early(self, why: str) -> None:
        """Give workers no more cases."""
        if self._early is None:
            self._early = why
            self._notices.append(f"the campaign ends early: {why}")

    def _end_if_hopeless(self) -> None:
        """End if more cases would give nothing new: all cases so far took their worker down in the same way."""
        outcomes, first = self._tally.outcomes, self._subject.first_losses
        if first is None or len(outcomes) != 1:
            return
        ((signature, count),) = outcomes.items()
        ending = self._subject.ending_in(signature)
        if ending is not None and count >= first:
            noun = self._subject.noun
            self._end_early(f"each of the first {count} {noun}s took its process down ({ending})")

    def _record_failure(self, worker: WorkerProcess, error: WorkerError, busy: dict[WorkerProcess, int]) -> None:
        """Keep the case, and continue after it: a worker in which something broke is replaced.

        The case gets no entry, so that a campaign that is resumed later, with the harness fixed, judges it.
        """
        if error.index is None:
            raise error
        self._notices.append(self._keep_failure(error.index, error, worker))
        if not self._is_over:
            worker.restart()
        self._assign_block(worker, busy, error.index + 1)

    def _keep_failure(self, index: int, error: WorkerError, worker: WorkerProcess | None = None) -> str:
        """Save the case `index`, in which the harness failed. Returns a line that reports it."""
        subject = self._subject

        def text() -> bytes:
            case = subject.draw(index) if worker is None else self._drawn(worker, index)
            return subject.encode_failed(case, index, str(error))

        return self._keep(index, error, text, shrinking=False)

    def _keep_candidate(self, index: int, error: WorkerError, case: Any, shrinking: bool) -> str | None:
        """See harness.campaign.findings.Fail."""
        if self._failures.too_many:
            return None
        return self._keep(
            index, error, lambda: self._subject.encode_failed(case, index, str(error)), shrinking=shrinking
        )

    def _keep(self, index: int, error: WorkerError, text: Callable[[], bytes], *, shrinking: bool) -> str:
        line = self._failures.record(index, str(error), text, shrinking=shrinking)
        if self._failures.too_many:
            self._end_early(f"the harness failed {self._failures.count} times")
        return line


def _where_it_resumes(done: Collection[int], noun: str) -> str:
    if not done:
        return f"resuming from the start: no {noun} was run before"
    return f"resuming after {noun} {max(done)}: {len(done)} were run before"

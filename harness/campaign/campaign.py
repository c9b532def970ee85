"""A campaign is one `harness run`: cases handed to workers in blocks, findings saved, shrunk and counted.

Which cases run depends on the seed and the number of cases alone; with a time budget, on how far it reaches. Findings
are told apart by signature, and the case with the lowest index stands for each.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import Literal, cast

import msgspec

from harness.campaign.coverage import KernelLines
from harness.campaign.events import (
    CampaignFinished,
    CampaignStarted,
    CaseJudged,
    Event,
    Notice,
    Summary,
)
from harness.campaign.findings import Findings
from harness.campaign.harness_failures import HarnessFailures
from harness.campaign.saving import NotSaved
from harness.case import Case, decode_case, encode_case
from harness.check.outcome import Outcome, Seconds, Signature
from harness.check.worker import OUTCOMES
from harness.check.worker_process import WorkerError, WorkerLost, WorkerProcess, WorkerRefused
from harness.engines.random import CASES_PER_LAYOUT, Recipe, case_at
from harness.engines.relations import RelationPolicy
from harness.regimes import REGIMES, regimes_of
from harness.repro import require_writable

WORKER_LOSSES_LIMIT = 200
"""A campaign in which every case takes its worker down ends after so many losses, not after its budget."""

EXPLORED_AT_ONCE = 1000
"""Cases that Hypothesis draws at a time."""

EngineName = Literal["random", "hypothesis"]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a campaign is asked to do. One of `cases` and `budget_seconds` is set; `require` names regimes.

    Operations `named` by the user have to be judged; of others, those that the target lacks are only told.
    The hypothesis engine has one worker.
    """

    target: str
    executor: str
    recipe: Recipe
    engine: EngineName = "random"
    out: Path
    cases: int | None = None
    budget_seconds: float | None = None
    workers: int = 1
    case_seconds: float = 120.0
    require: tuple[str, ...] = ()
    named: bool = True
    relations: RelationPolicy = RelationPolicy()
    fail_fast: bool = False
    shrink: bool = True
    shrink_executions: int = 1000


class Campaign:
    """Runs once. `run` yields events as they happen and ends with CampaignFinished."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._notices: list[str] = []
        self._findings = Findings(settings)
        self._judged: Counter[str] = Counter()
        self._skipped: Counter[str] = Counter()
        self._lacking: dict[str, Counter[str]] = {}
        self._refused: set[str] = set()
        """Operations skipped for another reason than that the target lacks them."""
        self._regimes: Counter[str] = Counter()
        self._relations: Counter[str] = Counter()
        self._launches = 0
        self._done = 0
        self._losses = 0
        self._failures = HarnessFailures(
            settings.out / "harness-failures", settings.recipe.seed, ("-t", settings.target, "-e", settings.executor)
        )
        self._next = 0
        self._ends_early = False
        self._lines = KernelLines()

    def run(self) -> Iterator[Event]:
        """Raises WorkerRefused if the target or executor cannot be had, WorkerError if the harness fails outside any
        case, OSError if a finding cannot be saved: at once if that shows before the first case, else after the
        summary."""
        settings = self._settings
        require_writable(settings.out)
        workers = [self._new_worker() for _ in range(useful_workers(settings))]
        try:
            for worker in workers:
                worker.wait_ready()
            yield CampaignStarted(
                settings.target,
                settings.executor,
                settings.recipe,
                settings.cases,
                settings.budget_seconds,
                len(workers),
            )
            self._start = time.monotonic()
            failed: OSError | WorkerRefused | None = None
            seconds = 0.0
            try:
                yield from self._judge_all(workers)
                seconds = time.monotonic() - self._start
                if self._lines.collect(workers) or self._losses:
                    self._notices.append("line coverage leaves out what workers ran that were lost")
                if settings.shrink:
                    yield from self._findings.shrink(partial(self._candidate_judge, workers[0]))
            except NotSaved as not_saved:
                failed, seconds = not_saved.error, seconds or time.monotonic() - self._start
            except WorkerRefused as refused:
                if not self._done:  # nothing to sum up
                    raise
                failed, seconds = refused, seconds or time.monotonic() - self._start
            yield from self._pass_on_notices()
        finally:
            for worker in workers:
                worker.close()
        summary = self._summary(seconds)
        if failed is None:
            yield CampaignFinished(summary)
        else:
            yield CampaignFinished(msgspec.structs.replace(summary, exit_status=2))
            raise failed

    def _new_worker(self) -> WorkerProcess:
        settings = self._settings
        return WorkerProcess(
            settings.target,
            settings.executor,
            limit=settings.case_seconds,
            on_notice=self._notices.append,
        )

    def _candidate_judge(self, worker: WorkerProcess, signature: Signature, index: int) -> Callable[[Case], Outcome]:
        """Judges candidates for a smaller case; one that the harness fails in is kept, and no candidate."""
        judge = shrinking_judge(worker, signature)

        def judged(case: Case) -> Outcome:
            if not self._failures.too_many:
                try:
                    return judge(case)
                except WorkerError as error:
                    self._keep_harness_failure(worker, index, error, case)
                    worker.restart()
            return Outcome((), Seconds())

        return judged

    def _pass_on_notices(self) -> Iterator[Event]:
        for text in dict.fromkeys(self._notices):
            yield Notice(text)
        self._notices.clear()

    # Judging: each worker has a block of cases, or the rest of one after a loss.

    def _judge_all(self, workers: list[WorkerProcess]) -> Iterator[Event]:
        busy: dict[WorkerProcess, int] = {}  # to the end of its block
        for worker in workers:
            self._hand_out(worker, busy)
        while busy:
            ready = wait([worker.connection for worker in busy], timeout=1.0)
            for worker in list(busy):
                try:
                    try:
                        if worker.connection in ready:
                            yield from self._hear(worker, busy)
                        elif worker.overdue():
                            raise worker.kill_hung()
                    except WorkerLost as lost:
                        yield from self._record_loss(worker, lost, busy)
                except WorkerError as error:
                    self._record_harness_failure(worker, error, busy)
            yield from self._pass_on_notices()

    def _hand_out(self, worker: WorkerProcess, busy: dict[WorkerProcess, int], start: int | None = None) -> None:
        """Give a worker the next block, or the rest of the one it lost; nothing if the campaign is over."""
        end = busy.pop(worker, 0)
        if start is None or start >= end:
            start = self._next
            block = CASES_PER_LAYOUT if self._settings.engine == "random" else EXPLORED_AT_ONCE
            end = self._next = min(start + block, self._settings.cases or start + block)
        enough = self._ends_early or (self._settings.fail_fast and len(self._findings) > 0)
        if enough or start >= end or time.monotonic() >= self._deadline:
            return
        busy[worker] = end
        recipe, policy = self._settings.recipe, self._settings.relations
        with contextlib.suppress(WorkerLost):  # that it is gone is heard of like any other loss
            if self._settings.engine == "random":
                worker.send_range(recipe, policy, start, end, self._deadline)
            else:
                fail_fast = self._settings.fail_fast
                worker.send_explore(recipe, policy, start, end, self._deadline, fail_fast=fail_fast)

    @property
    def _deadline(self) -> float:
        budget = self._settings.budget_seconds
        return float("inf") if budget is None else self._start + budget

    def _hear(self, worker: WorkerProcess, busy: dict[WorkerProcess, int]) -> Iterator[Event]:
        answer = worker.hear()
        if answer is None:
            return
        kind, content = answer
        if kind == "done":
            self._hand_out(worker, busy)
            return
        index, outcome_bytes, regimes, drawn, text = content
        outcome = OUTCOMES.decode(outcome_bytes)
        yield from self._record(index, outcome, regimes, None if text is None else decode_case(text), drawn)

    def _record_loss(self, worker: WorkerProcess, lost: WorkerLost, busy: dict[WorkerProcess, int]) -> Iterator[Event]:
        outside_any_case = lost.operation in ("draw", "start")
        if outside_any_case and not lost.from_outside:
            raise WorkerError(f"a worker was lost outside any case ({lost.violation}): {lost.detail}")
        self._losses += 1
        following = lost.index if outside_any_case else lost.index + 1
        if lost.from_outside:
            self._notices.append(lost.notice)
        if not (lost.from_outside and (outside_any_case or lost.answered)):
            yield from self._record_lost_case(worker, lost)
        if self._losses >= WORKER_LOSSES_LIMIT:
            self._end_early(f"{self._losses} times a worker was lost")
        if not worker.alive:
            worker.restart()
        self._hand_out(worker, busy, following)

    def _record_harness_failure(
        self, worker: WorkerProcess, error: WorkerError, busy: dict[WorkerProcess, int]
    ) -> None:
        """Keep the case, and go on after it: a worker in which something broke is replaced."""
        if error.index is None:
            raise error
        self._keep_harness_failure(worker, error.index, error)
        worker.restart()
        self._hand_out(worker, busy, error.index + 1)

    def _keep_harness_failure(
        self, worker: WorkerProcess, index: int, error: WorkerError, candidate: Case | None = None
    ) -> None:
        """Save the case that the harness failed in: that with an index, or a candidate for a smaller one."""
        told = self._failures.record(
            index, str(error), lambda: encode_case(candidate or self._drawn(worker, index)), shrinking=bool(candidate)
        )
        self._notices.append(told)
        if self._failures.too_many:
            self._end_early(f"the harness failed {self._failures.count} times")

    def _end_early(self, why: str) -> None:
        """Hand out no more cases."""
        if not self._ends_early:
            self._notices.append(f"the campaign ends early: {why}")
        self._ends_early = True

    def _drawn(self, worker: WorkerProcess, index: int) -> Case:
        """The case that a worker was at."""
        return case_at(self._settings.recipe, index) if self._settings.engine == "random" else decode_case(worker.drawn)

    def _record_lost_case(self, worker: WorkerProcess, lost: WorkerLost) -> Iterator[Event]:
        """The verdict on the case that a worker was at: lost with it, unless a new one can tell more."""
        recipe, policy = self._settings.recipe, self._settings.relations
        case = self._drawn(worker, lost.index)
        outcome = lost.outcome()
        if lost.from_outside:
            worker.restart()
            asked = policy.at(recipe.seed, lost.index)
            outcome = worker.check(case, asked, policy.most, again=False, index=lost.index)
        yield from self._record(lost.index, outcome, tuple(regimes_of(case)), case if outcome.failure else None)

    def _record(
        self, index: int, outcome: Outcome, regimes: tuple[str, ...], failed: Case | None, drawn: float = 0.0
    ) -> Iterator[Event]:
        self._done += 1
        self._regimes.update(regimes)
        for verdict in outcome.verdicts:
            self._launches += verdict.launches
            if verdict.status == "skip":
                self._skipped[cast(str, verdict.reason)] += 1
                if verdict.reason == "lacks-operation":
                    self._lacking.setdefault(verdict.operation, Counter())[verdict.detail] += 1
                else:
                    self._refused.add(verdict.operation)
            elif verdict.refused:
                self._skipped["refused"] += 1
            else:
                self._judged[verdict.operation] += 1
        for verdict in outcome.relations:
            self._launches += verdict.launches
            self._relations[verdict.relation] += verdict.status != "skip"
        yield CaseJudged(index, outcome, self._done, time.monotonic() - self._start, drawn)
        if failed is not None:
            event = self._findings.record(index, failed, outcome)
            if event is not None:
                yield event

    def _summary(self, seconds: float) -> Summary:
        settings = self._settings
        findings = self._findings.summary()
        missing = [f"regime {name}" for name in settings.require if not self._regimes[name]]
        unjudged = [name for name in settings.recipe.operations if not self._judged[name]]
        lacking: dict[str, str] = {
            name: self._lacking[name].most_common(1)[0][0]
            for name in unjudged
            if name in self._lacking.keys() - self._refused
        }
        excused = {} if settings.named or not +self._judged else lacking
        missing += [f"operation {name}" for name in unjudged if name not in excused]
        if settings.relations.required:
            missing += [f"relation {name}" for name in settings.relations.names if not self._relations[name]]
        domains = settings.recipe.domains
        return Summary(
            seed=settings.recipe.seed,
            target=settings.target,
            executor=settings.executor,
            engine=settings.engine,
            domain=domains[0] if len(domains) == 1 else "both",
            cases=self._done,
            judged={name: self._judged[name] for name in settings.recipe.operations},
            skipped=dict(sorted(self._skipped.items())),
            launches=self._launches,
            seconds=round(seconds, 3),
            cases_per_second=round(self._done / seconds, 2) if seconds > 0 else 0.0,
            findings=findings,
            regimes={
                name: self._regimes[name]
                for name, regime in sorted(REGIMES.items())
                if ("total" in domains or regime.reachable) and regime.operation in (None, *settings.recipe.operations)
            },
            kernel_lines=self._lines.coverage(),
            exit_status=4 if self._failures.count else 1 if findings else 3 if missing else 0,
            missing=missing,
            harness_failures=self._failures.count,
            lacking=lacking,
            relations={name: self._relations[name] for name in settings.relations.names},
        )


def useful_workers(settings: Settings) -> int:
    """Workers that get a block of cases: starting one takes seconds of processor time, so no others are started."""
    if settings.cases is None:
        return settings.workers
    return min(settings.workers, -(-settings.cases // CASES_PER_LAYOUT))


def shrinking_judge(worker: WorkerProcess, signature: Signature) -> Callable[[Case], Outcome]:
    """Judges candidates for a smaller case of the same finding: if a relation saw it, that one is asked."""
    asked = () if signature.relation is None else (signature.relation,)

    def judge(case: Case) -> Outcome:
        if not worker.alive:
            worker.restart()
        return worker.check(case, asked, sighted=signature.sighted)

    return judge

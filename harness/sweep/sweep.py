"""A sweep judges repro files on many targets, to say which of them a finding affects.

Files that a target can judge in one worker process share it. A target that cannot be asked gives an answer as well: one
that lacks the operation (NOT APPLICABLE) says nothing about the finding; a checkout that has lost it (LOST) and a
target that cannot be loaded (ERROR) leave a gap that the summary names."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import msgspec

from harness.case import InvalidCase
from harness.exit_status import BAD_INPUT, HARNESS_FAILED
from harness.kernels.targets.vllm.base_release import takes_base
from harness.refusal import Refusal
from harness.repro import AnyRepro
from harness.subject.registry import AnySubject
from harness.subject.subject import NotApplicable, Replayed, Setting
from harness.sweep.affected import TargetAnswer, affected_range
from harness.text import one_line
from harness.worker.losses import WorkerError, WorkerLost, WorkerRefused
from harness.worker.process import Assignment, WorkerProcess
from harness.worker.silence import LOOK_SECONDS

LOST = "LOST"
"""How the reason begins if a checkout lacks what its base release has."""

SweptFile = tuple[Path, type[AnySubject], AnyRepro]
"""A file, its subject, and what it holds."""


class Swept(msgspec.Struct, frozen=True):
    """One repro file on all targets, in the order they were named. `affected` is the range in one sentence; `issue` the
    known issue that a step sequence was found to be."""

    file: str
    signature: str
    domain: str
    answers: tuple[TargetAnswer, ...]
    affected: str
    issue: str | None = None

    @property
    def title(self) -> str:
        """What was found, for people: sequences of many issues have one signature."""
        return self.signature if self.issue is None else f"{self.signature} [{self.issue}]"

    @property
    def exit_status(self) -> int:
        """1 if it failed anywhere, else 4 or 2 if a target could not be asked, 3 if one has lost what the file is about
        or it applied nowhere, else 0."""
        found = {answer.status for answer in self.answers}
        lost = any(answer.answer == "LOST" for answer in self.answers)
        order = (1, HARNESS_FAILED, BAD_INPUT, 3, 0) if lost else (1, HARNESS_FAILED, BAD_INPUT, 0, 3)
        return next((status for status in order if status in found), 0)


class SweepInterrupted(Exception):
    """Ctrl-C; `known` is the result so far."""

    def __init__(self, known: list[Swept]) -> None:
        super().__init__("interrupted")
        self.known = known


def sweep(
    files: Sequence[SweptFile],
    targets: Sequence[str],
    executor: str | None,
    *,
    base: str | None = None,
    limit: float | None,
    workers: int = 1,
    vary: bool = False,
    announce: Callable[[str], None] = lambda text: None,
) -> list[Swept]:
    """Judge every file on every target, `workers` targets at a time.

    With `vary`, other forms of a file are judged, too, if it does not fail, or needs settings that differ from the
    target's defaults. `limit` is the maximum number of seconds that a worker may be silent, `base` the base release of
    checkouts. Each answer is announced when it is known. Raises SweepInterrupted at Ctrl-C.
    """
    columns: list[dict[int, TargetAnswer]] = [{} for _ in targets]
    at_work = _AtWork()

    def say(line: str) -> None:
        if not at_work.interrupted:
            announce(line)

    def ask(target: str, column: dict[int, TargetAnswer]) -> None:
        own = base if takes_base(target.partition("+")[0]) else None
        setting = Setting(target=target, base=own, executor=executor, limit=limit, announce=say, sweeping=True)
        for row, answer in _column(files, setting, target, at_work, vary):
            if at_work.interrupted:  # its worker was ended by the interrupt: not an answer
                return
            column[row] = answer
            announce(f"{files[row][0]} on {answer.target}: {_so_far(answer)}")

    pool = ThreadPoolExecutor(max_workers=workers)
    try:
        waiting = [pool.submit(ask, *one) for one in zip(targets, columns, strict=True)]
        # In slices: a signal that comes just before a wait without end would not be noticed in it.
        while waiting:
            done, rest = wait(waiting, timeout=LOOK_SECONDS)
            for one in done:
                one.result()
            waiting = list(rest)
    except KeyboardInterrupt:
        at_work.interrupt()
        raise SweepInterrupted(_swept(files, targets, [dict(column) for column in columns])) from None
    finally:
        pool.shutdown(wait=not at_work.interrupted, cancel_futures=True)
    return _swept(files, targets, columns)


class _AtWork:
    """The workers of all threads. An interrupt ends them, because a thread that waits for its worker notices nothing
    else."""

    def __init__(self) -> None:
        self.interrupted = False
        self._workers: set[WorkerProcess] = set()
        self._lock = threading.Lock()

    def interrupt(self) -> None:
        with self._lock:
            self.interrupted = True
            for worker in self._workers:
                worker.abandon()

    @contextlib.contextmanager
    def worker_of(self, subject: AnySubject) -> Iterator[WorkerProcess]:
        with self._lock:
            worker = subject.new_worker()
            self._workers.add(worker)
            if self.interrupted:
                worker.abandon()
        try:
            yield worker
        finally:
            with self._lock:
                self._workers.discard(worker)
            worker.close()


def _so_far(answer: TargetAnswer) -> str:
    """An answer while others are not known yet: whether a target that does not fail is FIXED depends on older ones."""
    if answer.answer == "FIXED":
        return "does not fail"
    return f"{answer.answer}{' with another signature' if answer.answer == 'FAILED' and not answer.same else ''}"


def _swept(
    files: Sequence[SweptFile], targets: Sequence[str], columns: Sequence[dict[int, TargetAnswer]]
) -> list[Swept]:
    swept = []
    for row, (file, _, repro) in enumerate(files):
        answers = tuple(
            column.get(row) or TargetAnswer(target, "NOT ASKED", False, None, "", 0)
            for target, column in zip(targets, columns, strict=True)
        )
        range_in_words = affected_range(answers)
        swept.append(Swept(str(file), str(repro.signature), repro.domain, answers, range_in_words, repro.issue))
    return swept


Ready = tuple[int, AnySubject, AnyRepro]
"""The row of a file, its subject set up for the target, and the file as it is to be judged."""


def _column(
    files: Sequence[SweptFile], setting: Setting, target: str, at_work: _AtWork, vary: bool
) -> Iterator[tuple[int, TargetAnswer]]:
    """The target's answer for each file, with the file's row, as soon as it is known: files are grouped by
    assignment."""
    together: dict[Assignment, list[Ready]] = {}
    for row, (_, kind, repro) in enumerate(files):
        try:
            subject, ready = kind.of_file(repro, setting)
        except NotApplicable as reason:
            yield row, _not_applicable(target, str(reason))
        except (Refusal, InvalidCase) as refusal:
            yield row, _error(target, refusal, BAD_INPUT)
        else:
            together.setdefault(subject.assignment(), []).append((row, subject, ready))
    for rows in together.values():
        yield from _in_one_worker(target, rows, setting.announce, at_work, vary)


def _in_one_worker(
    target: str, rows: Sequence[Ready], announce: Callable[[str], None], at_work: _AtWork, vary: bool
) -> Iterator[tuple[int, TargetAnswer]]:
    first = rows[0][1]
    if first.loads is not None:
        announce(f"loading {first.loads} ...")
    with at_work.worker_of(first) as worker:
        try:
            for line in worker.loading():
                announce(f"{target}: {line}")
        except WorkerRefused as refusal:
            # A release without what sequences need says nothing; a checkout that does not import is at fault.
            says_nothing = first.unloadable == "NOT APPLICABLE" and not takes_base(target.partition("+")[0])
            answer = _not_applicable(target, str(refusal)) if says_nothing else _error(target, refusal, BAD_INPUT)
            yield from ((row, answer) for row, _, _ in rows)
            return
        except (WorkerError, WorkerLost) as failure:
            answer = _error(target, _last_line(failure), HARNESS_FAILED)
            yield from ((row, answer) for row, _, _ in rows)
            return
        for row, subject, repro in rows:
            try:
                yield row, _judge(target, worker, subject, repro, vary)
            except (Refusal, InvalidCase) as refusal:
                yield row, _error(target, refusal, BAD_INPUT)
            except (WorkerError, WorkerLost) as failure:
                yield row, _error(target, _last_line(failure), HARNESS_FAILED)
                if at_work.interrupted:
                    return
                worker.restart()


def _judge(target: str, worker: WorkerProcess, subject: AnySubject, repro: AnyRepro, vary: bool) -> TargetAnswer:
    """The answer for a file, or for the form of it that is closest to the target's defaults."""
    result = subject.judge_file(worker, repro)
    answer = _judged(target, subject.replayed(repro, result))
    if not subject.has_variations or answer.settings == ():
        return answer
    tried = 0
    for words, other in subject.variations(worker, repro, result) if vary else ():
        tried += 1
        found = subject.judge_file(worker, other)
        if subject.shows(worker, other, found):
            varied = _judged(target, subject.replayed(other, found))
            return msgspec.structs.replace(varied, variation=words)
    return msgspec.structs.replace(answer, varied=tried) if answer.answer == "FIXED" else answer


def _judged(target: str, replayed: Replayed) -> TargetAnswer:
    if replayed.answer == "FAILED":
        return TargetAnswer(
            target, "FAILED", replayed.same, replayed.signature, replayed.summary, 1, settings=replayed.settings
        )
    if replayed.reason is not None:
        return _not_applicable(target, replayed.reason)
    return TargetAnswer(target, "FIXED", False, None, "", 0)


def _not_applicable(target: str, reason: str) -> TargetAnswer:
    """The answer for a target that a file says nothing about, or that has lost what it is about."""
    if reason.startswith(LOST):
        return TargetAnswer(target, "LOST", False, None, one_line(reason.removeprefix(LOST).lstrip(": ")), 3)
    return TargetAnswer(target, "NOT APPLICABLE", False, None, one_line(reason), 3)


def _error(target: str, reason: object, status: int) -> TargetAnswer:
    """The answer for a target that could not be asked."""
    return TargetAnswer(target, "ERROR", False, None, one_line(reason), status)


def _last_line(error: Exception) -> str:
    """The line of a traceback that says what happened."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]

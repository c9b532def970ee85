"""A sweep replays repro files on many targets, to say which of them a finding affects.

Each target has a worker process of its own that replays all files, and one that runs all step sequences.
What cannot be asked is an answer too: a target
that lacks the operation (NOT APPLICABLE) says nothing about the finding, and one that cannot be loaded (ERROR) leaves
a gap that the summary names.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import msgspec

from harness.case import InvalidCase
from harness.check.outcome import Outcome
from harness.check.worker_process import WorkerError, WorkerLost, WorkerProcess, WorkerRefused
from harness.kernels.targets.base import UnknownTarget
from harness.kernels.targets.registry import prepare
from harness.kernels.targets.selection import release_of
from harness.repro.format import Repro
from harness.repro.replay import relations_to_ask
from harness.repro.sequences import SequenceRepro

SweepAnswer = Literal["FAILED", "FIXED", "NOT APPLICABLE", "ERROR", "NOT ASKED"]
"""NOT ASKED: the sweep was interrupted before."""

BAD_TARGET, HARNESS_FAILED = 2, 4


class TargetAnswer(msgspec.Struct, frozen=True):
    """What one target gave. `same`: a failure has the recorded signature; `detail` says why in one line."""

    target: str
    answer: SweepAnswer
    same: bool
    signature: str | None
    detail: str
    status: int
    """As an exit status: 0 fixed, 1 failed, 2 no such target, 3 not applicable, 4 the harness failed."""


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
        """1 if it failed anywhere, else 4 or 2 if a target could not be asked, 3 if it applied nowhere, else 0."""
        found = {answer.status for answer in self.answers}
        return next((status for status in (1, HARNESS_FAILED, BAD_TARGET, 0, 3) if status in found), 0)


class SweepInterrupted(Exception):
    """Ctrl-C; `known` is the result so far."""

    def __init__(self, known: list[Swept]) -> None:
        super().__init__("interrupted")
        self.known = known


def sweep(
    repros: Sequence[tuple[Path, Repro | SequenceRepro]],
    targets: Sequence[str],
    executor: str,
    *,
    limit: float,
    workers: int = 1,
    announce: Callable[[str], None] = lambda text: None,
) -> list[Swept]:
    """Replay every file on every target; `workers` targets at a time. `limit` is seconds for one operation, or one
    sequence. Each answer is announced when it is known. Raises SweepInterrupted at Ctrl-C."""
    cases = {row: repro for row, (_, repro) in enumerate(repros) if isinstance(repro, Repro)}
    sequences = {row: repro for row, (_, repro) in enumerate(repros) if isinstance(repro, SequenceRepro)}
    columns: list[dict[int, TargetAnswer]] = [{} for _ in targets]
    interrupted = threading.Event()

    def ask(target: str, column: dict[int, TargetAnswer]) -> None:
        if cases:
            note(cases, column, enumerate(_ask(target, list(cases.values()), executor, limit, announce)))
        if sequences and not interrupted.is_set():
            from harness.sequences.sweeping import ask_sequences

            note(sequences, column, ask_sequences(target, list(sequences.values()), executor, limit, announce))

    def note(rows: Iterable[int], column: dict[int, TargetAnswer], answers: Iterator[tuple[int, TargetAnswer]]) -> None:
        places = list(rows)
        for number, answer in answers:
            if interrupted.is_set():  # its worker may have been interrupted, too: that is no answer
                return
            column[places[number]] = answer
            other = " with another signature" if answer.answer == "FAILED" and not answer.same else ""
            announce(f"{repros[places[number]][0]} on {answer.target}: {answer.answer}{other}")

    pool = ThreadPoolExecutor(max_workers=workers)
    try:
        list(pool.map(ask, targets, columns))
    except KeyboardInterrupt:
        interrupted.set()
        raise SweepInterrupted(_swept(repros, targets, [dict(column) for column in columns])) from None
    finally:
        pool.shutdown(wait=not interrupted.is_set(), cancel_futures=True)
    return _swept(repros, targets, columns)


def _swept(
    repros: Sequence[tuple[Path, Repro | SequenceRepro]],
    targets: Sequence[str],
    columns: Sequence[dict[int, TargetAnswer]],
) -> list[Swept]:
    swept = []
    for row, (file, repro) in enumerate(repros):
        answers = tuple(
            column.get(row) or TargetAnswer(target, "NOT ASKED", False, None, "", 0)
            for target, column in zip(targets, columns, strict=True)
        )
        domain, issue = ("reachable", repro.issue) if isinstance(repro, SequenceRepro) else (repro.case.domain, None)
        swept.append(Swept(str(file), str(repro.signature), domain, answers, affected_range(answers), issue))
    return swept


def _ask(
    target: str, repros: Sequence[Repro], executor: str, limit: float, announce: Callable[[str], None]
) -> Iterator[TargetAnswer]:
    try:
        prepare(target, announce)
        worker = WorkerProcess(target, executor, limit=limit)
    except UnknownTarget as refusal:
        yield from (error_of(target, refusal, BAD_TARGET) for _ in repros)
        return
    with worker:
        try:
            worker.wait_ready()
        except (WorkerRefused, WorkerError, WorkerLost) as refusal:
            status = BAD_TARGET if isinstance(refusal, WorkerRefused) else HARNESS_FAILED
            yield from (error_of(target, last_line(refusal), status) for _ in repros)
            return
        for repro in repros:
            try:
                if not worker.alive:
                    worker.restart()
                yield _judged(
                    target, repro, worker.check(repro.case, relations_to_ask(repro), sighted=repro.signature.sighted)
                )
            except (WorkerRefused, InvalidCase) as refusal:
                yield error_of(target, refusal, BAD_TARGET)
            except (WorkerError, WorkerLost) as failure:
                yield error_of(target, last_line(failure), HARNESS_FAILED)


def error_of(target: str, reason: object, status: int) -> TargetAnswer:
    """The answer of a target that could not be asked."""
    return TargetAnswer(target, "ERROR", False, None, " ".join(str(reason).split()), status)


def last_line(error: Exception) -> str:
    """The line of a traceback that says what happened."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]


def _judged(target: str, repro: Repro, outcome: Outcome) -> TargetAnswer:
    failure = outcome.failure
    if failure is not None:
        summary = failure.evidence.summary if failure.evidence is not None else ""
        return TargetAnswer(target, "FAILED", failure.signature == repro.signature, str(failure.signature), summary, 1)
    for verdict in (*outcome.verdicts, *outcome.relations):
        if verdict.status == "skip":
            return TargetAnswer(target, "NOT APPLICABLE", False, None, f"{verdict.reason}: {verdict.detail}", 3)
        if verdict.refused:
            return TargetAnswer(target, "NOT APPLICABLE", False, None, f"refused: {verdict.detail}", 3)
    return TargetAnswer(target, "FIXED", False, None, "", 0)


NOT_AFFECTED = "NOT AFFECTED"


def in_words(answer: TargetAnswer, answers: Sequence[TargetAnswer]) -> str:
    """An answer as people read it: a target passes that was never affected (NOT AFFECTED), or is again right (FIXED).

    It was affected if an older release among those asked fails. Machines get FIXED for both: the same verdict.
    """
    if answer.answer != "FIXED":
        return answer.answer
    release = release_of(answer.target)
    failed = [release_of(other.target) for other in answers if other.answer == "FAILED"]
    older = release is not None and any(other is not None and other < release for other in failed)
    return "FIXED" if older else NOT_AFFECTED


def affected_range(answers: Sequence[TargetAnswer]) -> str:
    """Which targets a finding affects, in one sentence: releases of vLLM as ranges, others by name."""
    failed = [answer for answer in answers if answer.answer == "FAILED"]
    applicable = [answer for answer in answers if answer.answer in ("FAILED", "FIXED")]
    parts = [_affected(answers, failed, applicable)]
    absent = _named(answers, "NOT APPLICABLE")
    if absent and applicable:
        parts.append(f"not applicable to {absent}")
    unasked = _named(answers, "NOT ASKED")
    if unasked:
        parts.append(f"not asked of {unasked}")
    unknown = _named(answers, "ERROR")
    if unknown:
        parts.append(f"unknown for {unknown}")
    return "; ".join(parts) + "."


def _affected(
    answers: Sequence[TargetAnswer], failed: Sequence[TargetAnswer], applicable: Sequence[TargetAnswer]
) -> str:
    if not applicable:
        words = {answer.answer for answer in answers}
        absent = "NOT APPLICABLE" in words and "NOT ASKED" not in words
        return "Applies to none of the targets" if absent else "Not known"
    if not failed:
        several = f"none of the {len(applicable)} targets" if len(applicable) > 1 else "not the one target"
        return f"Affects {several} it applies to"
    text = f"Affects {_named(answers, 'FAILED')}"
    others = [answer for answer in failed if not answer.same]
    if others and len(others) < len(failed):
        text += f" (with another signature on {', '.join(answer.target for answer in others)})"
    elif others:
        text += " (with another signature)"
    newest_failed = max((r for a in failed if (r := release_of(a.target))), default=None)
    later = [r for a in applicable if a.answer == "FIXED" and (r := release_of(a.target)) is not None]
    since = min((release for release in later if newest_failed is not None and release > newest_failed), default=None)
    if since is not None:
        text += f", fixed in {since}"
    return text


def _named(answers: Sequence[TargetAnswer], wanted: SweepAnswer) -> str:
    """Targets with an answer: runs of consecutive releases among those asked, then other targets by name."""
    releases = sorted(
        (
            (release, answer.answer == wanted)
            for answer in answers
            if (release := release_of(answer.target)) is not None
        ),
        key=lambda item: item[0],
    )
    runs: list[list[str]] = []
    previous = False
    for release, here in releases:
        if here and previous:
            runs[-1].append(str(release))
        elif here:
            runs.append([str(release)])
        previous = here
    texts = [run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs]
    named = [f"vllm {' and '.join(texts) if len(texts) < 3 else ', '.join(texts)}"] if texts else []
    named += [answer.target for answer in answers if release_of(answer.target) is None and answer.answer == wanted]
    return ", ".join(named)

"""Sweeping sequences is running those of many repro files on one target: what it gives for each, in a sweep's words.

One child runs them all, a second one those that were found with kernels beside them. A target whose scheduler cannot be
driven says nothing about a finding: that is a reason why it does not apply, like an option that a release lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from harness.case import InvalidCase
from harness.check.worker_process import WorkerError, WorkerRefused
from harness.kernels.targets.base import UnknownTarget
from harness.kernels.targets.registry import prepare
from harness.kernels.targets.vllm.scheduling.sources import check, require_packages, whole_tree
from harness.repro.sequences import SequenceRepro
from harness.repro.sweep import BAD_TARGET, HARNESS_FAILED, TargetAnswer, error_of, last_line
from harness.sequences.controls import Controls
from harness.sequences.kernels import Beside, KernelChoice
from harness.sequences.process import SequenceProcess
from harness.sequences.result import RunResult
from harness.sequences.verdicts import not_judged, signature_of

PACKAGES_MISSING = "step sequences cannot run here: packages are missing"


def cannot_be_driven(target: str) -> str | None:
    """Why a target has no scheduler that the harness can drive; None if it may have one. Quick, and downloads
    nothing."""
    try:
        check(target.partition("+")[0])
    except UnknownTarget as refusal:
        return str(refusal)
    return None


def ask_sequences(
    target: str,
    repros: Sequence[SequenceRepro],
    executor: str,
    limit: float,
    announce: Callable[[str], None],
) -> Iterator[tuple[int, TargetAnswer]]:
    """What the target gives for each file, with the file's place among `repros`, as it is known."""
    reason = cannot_be_driven(target)
    if reason is not None:
        yield from ((row, _not_applicable(target, reason)) for row in range(len(repros)))
        return
    name = target.partition("+")[0]
    left = set(range(len(repros)))
    try:
        require_packages()
    except UnknownTarget:  # whoever sweeps is told once what to install
        yield from ((row, error_of(target, PACKAGES_MISSING, BAD_TARGET)) for row in range(len(repros)))
        return
    try:
        origin = whole_tree(name, announce).origin
        for kernels in (None, KernelChoice(target, executor)):
            rows = {row: repro for row, repro in enumerate(repros) if (repro.kernels is None) == (kernels is None)}
            if rows:
                if kernels is not None:
                    prepare(target, announce)
                announce(f"loading {origin} ...")
                answers = _run(target, name, list(rows.values()), Beside(kernels), limit)
                for row, answer in zip(rows, answers, strict=True):
                    left.discard(row)
                    yield row, answer
    except UnknownTarget as refusal:
        for row in sorted(left):
            yield row, error_of(target, refusal, BAD_TARGET)


def _run(
    target: str, name: str, repros: Sequence[SequenceRepro], beside: Beside, limit: float
) -> Iterator[TargetAnswer]:
    with SequenceProcess(name, beside, limit) as child:
        try:
            child.wait_ready()
        except WorkerRefused as refusal:
            yield from (_not_applicable(target, str(refusal)) for _ in repros)
            return
        except WorkerError as failure:
            yield from (error_of(target, last_line(failure), HARNESS_FAILED) for _ in repros)
            return
        for repro in repros:
            try:
                result = child.check(repro.sequence, Controls(faults=repro.faults, fixes=repro.fixes))
                yield _judged(target, repro, result)
            except (WorkerRefused, InvalidCase) as refusal:
                yield error_of(target, refusal, BAD_TARGET)
            except WorkerError as failure:
                yield error_of(target, last_line(failure), HARNESS_FAILED)
                child.restart()


def _not_applicable(target: str, reason: str) -> TargetAnswer:
    return TargetAnswer(target, "NOT APPLICABLE", False, None, " ".join(reason.split()), 3)


def _judged(target: str, repro: SequenceRepro, result: RunResult) -> TargetAnswer:
    if result.violation is not None:
        signature = signature_of(result.violation)
        same = signature == repro.signature
        return TargetAnswer(target, "FAILED", same, str(signature), result.violation.summary, 1)
    reason = not_judged(repro.signature, result)
    if reason is not None:
        return _not_applicable(target, reason)
    return TargetAnswer(target, "FIXED", False, None, "", 0)

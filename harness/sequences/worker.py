"""A sequence worker is a worker process that drives one release, with typed questions and answers."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from harness.case.sequence import SequenceCase, encode_sequence
from harness.kernels.targets.vllm.base_release import BaseRelease
from harness.kernels.targets.vllm.edits import files_to_watch
from harness.kernels.targets.vllm.scheduling.loading import HASH_SEED
from harness.oracles.states.device import NO_WRITER
from harness.oracles.states.violation import LOST, Violation
from harness.sequences.controls import Controls
from harness.sequences.judge import ENCODER, AboutDefaults, DrawnSequences, SequenceAssignment
from harness.sequences.kernels import KernelSide
from harness.sequences.recipe import SequenceRecipe
from harness.sequences.result import RESULTS, RunResult
from harness.worker.losses import WorkerLost
from harness.worker.process import Assignment, WorkerProcess

LIMIT_SECONDS = 120.0
"""Maximum number of seconds for a sequence. It takes a fraction of a second, but the first ones import host code, and
compile kernels if they run on bytes."""


def assignment(target: str, kernel_side: KernelSide | None = None, base: BaseRelease | None = None) -> Assignment:
    """What a worker for a release is started with; `kernel_side` says where the sequences' kernel arguments go, `base`
    is the base release of a target that is none."""
    kernel_side = kernel_side or KernelSide()
    on_device = kernel_side.kernels is not None and kernel_side.kernels.executor == "cuda"
    environment: tuple[tuple[str, str | None], ...] = (("PYTHONHASHSEED", HASH_SEED),)
    if not on_device:
        environment += (("CUDA_VISIBLE_DEVICES", ""),)
    watched = None if base is None else msgspec.structs.replace(base, changed=files_to_watch(base))
    text = msgspec.json.encode(SequenceAssignment(target, kernel_side, watched)).decode()
    return Assignment("harness.sequences.judge:make", text, environment)


def check(
    worker: WorkerProcess, case: SequenceCase, controls: Controls, *, again: bool = True, index: int = -1
) -> RunResult:
    """Run one sequence; the loss of the worker is a result as well. `again`: see WorkerProcess.judge. Raises
    WorkerError."""
    try:
        result = worker.judge(encode_sequence(case), ENCODER.encode(controls), again=again, index=index)
    except WorkerLost as lost:
        return lost_result(lost.violation, "\n".join(lost.last_words))
    return RESULTS.decode(result)


def defaults_of(worker: WorkerProcess) -> AboutDefaults:
    """Production's defaults of the worker's release. Raises WorkerError."""
    try:
        return msgspec.msgpack.decode(worker.ask("defaults", b""), type=AboutDefaults)
    except WorkerLost as lost:
        return AboutDefaults(None, f"a worker was lost meanwhile ({lost.violation})")


def recipe_text(recipe: SequenceRecipe, controls: Controls) -> bytes:
    """What a worker needs to draw and run sequences of a range."""
    return ENCODER.encode(DrawnSequences(recipe, controls))


def lost_result(reason: str, last_words: str = "") -> RunResult:
    """The result of a sequence whose worker died or hung."""
    violation = Violation(f"{LOST}{reason}", "process", 0, "the engine", -1, -1, -1, NO_WRITER, "", "")
    return RunResult(violation, None, -1, 0, 0.0, {}, last_words)


def reason_in(signature: str) -> str | None:
    """Why the worker was lost, if that is what a signature says."""
    _, found, rest = signature.partition(f"/{LOST}")
    return rest.partition("/")[0] if found else None


class SequenceWorker(WorkerProcess):
    """One process for one release. `limit` is the maximum number of seconds for one sequence, None: LIMIT_SECONDS."""

    def __init__(
        self,
        target: str,
        kernel_side: KernelSide | None = None,
        limit: float | None = None,
        on_notice: Callable[[str], None] = lambda text: None,
        base: BaseRelease | None = None,
    ) -> None:
        super().__init__(assignment(target, kernel_side, base), LIMIT_SECONDS if limit is None else limit, on_notice)

    def check(self, case: SequenceCase, controls: Controls, *, again: bool = True) -> RunResult:
        """Run one sequence; see `check` above."""
        return check(self, case, controls, again=again)

    def without_effect(self, fixes: tuple[str, ...]) -> list[str]:
        """Those of `fixes` that are known to change nothing in this release. Raises WorkerLost or WorkerError."""
        return msgspec.msgpack.decode(self.ask("effects", ENCODER.encode(fixes)), type=list[str])

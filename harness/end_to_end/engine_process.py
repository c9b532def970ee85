"""An engine process is a worker in an engine's own environment, with typed questions and answers.

It is lost as any worker is: a crash and a hang are results that name what it did. It uses one thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from harness.end_to_end.builds import Build, NoEngine
from harness.end_to_end.messages import (
    ANSWER_DECODER,
    ENCODER,
    FACTS_DECODER,
    SENSITIVITY_DECODER,
    EngineAssignment,
    EngineFacts,
    EngineOptions,
    ModelKind,
    RunSequence,
    Sensitivity,
    SequenceAnswer,
)
from harness.kernels.cache_directory import cache_directory
from harness.refusal import Refusal
from harness.worker.process import Assignment, WorkerProcess

JUDGE = "harness.end_to_end.inside.judge:make"
"""What answers in the process."""

LIMIT_SECONDS = 300.0
"""Maximum number of seconds for a sequence; the first one makes the plain run's engine and compiles kernels as well."""

TRIES = 2
"""How often each kind of damage is tried before a model is used."""


class Insensitive(Refusal):
    """The model does not notice damaged states, so that right tokens would say nothing."""


def engine_assignment(build: Build, faults: tuple[str, ...] = (), judge: str = JUDGE) -> Assignment:
    """What a process with engines of a build is started with, with planted faults in its fused kernels. Raises NoEngine
    if the environment has no interpreter any more: it is a link to the Python that made it."""
    if not os.access(build.python, os.X_OK):
        name = build.python.parent.parent.name
        raise NoEngine(
            f"the environment {name} has no Python any more: `harness engine clean {name}`, then `harness engine fetch`"
        )
    models = str(cache_directory() / "engines" / "models")
    return Assignment(
        judge,
        msgspec.json.encode(EngineAssignment(models, faults=faults)).decode(),
        (("OMP_NUM_THREADS", "1"), ("PYTHONHASHSEED", "0")),
        str(build.python),
        tuple(map(str, build.path)),
    )


class EngineProcess(WorkerProcess):
    """The process of one build, with planted faults in its fused kernels."""

    def __init__(
        self,
        build: Build,
        limit: float = LIMIT_SECONDS,
        on_notice: Callable[[str], None] = lambda text: None,
        faults: tuple[str, ...] = (),
    ) -> None:
        super().__init__(engine_assignment(build, faults), limit, on_notice)

    def facts(self, model: ModelKind, num_spec: int) -> EngineFacts:
        """What engines of this build are, with a model. Raises WorkerLost, WorkerRefused or WorkerError."""
        options = EngineOptions(
            mamba_layers=model.count, layers=model.layers, num_spec=num_spec, budget=64, requests=2, num_blocks=256
        )
        return FACTS_DECODER.decode(self.ask("facts", ENCODER.encode(options)))

    def run(self, request: RunSequence) -> SequenceAnswer:
        """Run one sequence. Raises WorkerLost, WorkerRefused or WorkerError."""
        return ANSWER_DECODER.decode(self.judge(ENCODER.encode(request)))

    def sensitivity(self, model: ModelKind, tries: int = TRIES) -> Sensitivity:
        """How often the model notices each kind of damage."""
        return SENSITIVITY_DECODER.decode(self.ask("sensitivity", ENCODER.encode((model, tries))))

    def require_sensitive(self, model: ModelKind) -> Sensitivity:
        """Raise Insensitive if a kind of damage passes unnoticed in more than one try of twenty."""
        found = self.sensitivity(model)
        for kind, noticed in found.noticed.items():
            if noticed < found.tries - found.tries // 20:
                raise Insensitive(
                    f"the model does not notice {kind}: only {noticed} of {found.tries} tries changed a token within"
                    f" {found.within}"
                )
        return found

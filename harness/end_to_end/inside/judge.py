"""The judge inside an engine's process: it makes engines, runs sequences on them, and answers with tokens."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import msgspec

from harness.end_to_end.messages import (
    ENCODER,
    OPTIONS_DECODER,
    RUN_DECODER,
    EngineAssignment,
    EngineOptions,
    ModelKind,
    RunSequence,
    SequenceAnswer,
    model_of,
)
from harness.refusal import Refusal
from harness.text import one_line
from harness.worker.judge import Channel, Judge

LONGEST = 1024
"""Tokens of the plain run's longest request."""


def make(text: str, channel: Channel) -> Judge:
    """Import the release and replace what the CPU lacks. Raises Refusal if the environment cannot run it."""
    assignment = msgspec.json.decode(text, type=EngineAssignment)
    import_release()
    return EngineJudge(assignment, channel)


def import_release() -> None:
    """Import what an engine needs, on one thread. Raises Refusal."""
    from harness.end_to_end.inside.engine import prepare_environment

    prepare_environment()
    import torch

    torch.set_num_threads(1)
    try:
        import vllm.v1.engine.core
        import vllm.v1.worker.cpu_worker  # noqa: F401
    except Exception as error:
        raise Refusal(f"the environment cannot import its vLLM: {type(error).__name__}: {one_line(error)}") from error


class EngineJudge(Judge):
    """Runs sequences on engines of one release, and requests plainly."""

    def __init__(self, assignment: EngineAssignment, channel: Channel) -> None:
        super().__init__(channel)
        from harness.end_to_end.inside.replacing import Replacer
        from harness.end_to_end.inside.stand_ins import replace_all

        self._assignment = assignment
        self._replacer = Replacer()
        self._fused = replace_all(self._replacer, assignment.faults)
        self._plain: dict[ModelKind, Any] = {}
        self._noise: dict[ModelKind, float] = {}

    def judge(self, case: bytes, how: bytes) -> bytes:
        """What a sequence does on an engine."""
        return ENCODER.encode(self._run(RUN_DECODER.decode(case)))

    def judge_drawn(self, recipe: bytes, index: int) -> tuple[bytes, bytes | None, float]:
        raise NotImplementedError("engines draw nothing")

    def ask(self, question: str, content: bytes) -> bytes:
        """`facts`: what an engine with these options is. `sensitivity`: whether the model notices damage."""
        if question == "facts":
            return ENCODER.encode(self._engine(OPTIONS_DECODER.decode(content)).facts())
        if question == "sensitivity":
            from harness.end_to_end.inside.sensitivity import measure

            model, tries = msgspec.msgpack.decode(content, type=tuple[ModelKind, int])
            return ENCODER.encode(measure(self._engine, self.plain(model), model, tries))
        return super().ask(question, content)

    def plain(self, model: ModelKind) -> Any:
        """The plain run of a model."""
        from harness.end_to_end.inside.plain_run import PlainRun

        if model not in self._plain:
            self.channel.at("plain engine")
            options = EngineOptions(
                mamba_layers=model.count,
                layers=model.layers,
                attention_first=model.attention_first,
                plain=True,
                num_blocks=64,
                length_limit=LONGEST,
            )
            self._plain[model] = PlainRun(self._engine(options))
        return self._plain[model]

    def _noise_of(self, model: ModelKind) -> float:
        from harness.end_to_end.inside.sensitivity import noise

        if model not in self._noise:
            self.channel.at("noise")
            self._noise[model] = noise(self._engine, self.plain(model), model)
        return self._noise[model]

    def _engine(self, options: EngineOptions) -> Any:
        from harness.end_to_end.inside.engine import RunningEngine
        from harness.end_to_end.inside.models import checkpoint
        from harness.end_to_end.inside.stand_ins import install_kernels

        folder = checkpoint(Path(self._assignment.models), options.model, self._assignment.seed)
        engine = RunningEngine(options, str(folder), self._fused)
        install_kernels(self._fused)
        return engine

    def _run(
        self, request: RunSequence, around: Callable[[Any], AbstractContextManager[None]] = nullcontext
    ) -> SequenceAnswer:
        """Run a sequence on an engine, inside of what `around` makes of the engine."""
        from harness.end_to_end.inside.scripted_run import ScriptedRun

        case, config = request.sequence, request.sequence.config
        model = model_of(config, attention_first=request.record)
        plain = self.plain(model)
        self.channel.at("engine")
        began = time.perf_counter()
        options = options_of(request)
        try:
            engine = self._engine(options)
        except (AssertionError, ValueError, NotImplementedError) as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            return SequenceAnswer(refused=f"{one_line(error) or place.line} ({place.name})")
        self.channel.at("sequence")
        self._fused.forget()
        engine.recorded = [] if request.record else None
        with around(engine):
            answer = ScriptedRun(case, engine, plain).run()
        answer.recorded = engine.recorded or []
        answer.facts = engine.facts()
        answer.replaced = [one.line for one in self._replacer.made]
        answer.kernel_faults = [f"{fault.violation}: {fault.where}" for fault in self._fused.faults]
        answer.kernel_launches = self._fused.launches
        answer.noise = self._noise_of(model)
        answer.seconds = time.perf_counter() - began
        return answer


def options_of(request: RunSequence) -> EngineOptions:
    """The options of the engine that a sequence asks for."""
    config = request.sequence.config
    return EngineOptions(
        mamba_layers=config.mamba_groups,
        layers=model_of(config).layers,
        attention_first=request.record,
        block_size=config.block_size,
        num_blocks=config.num_blocks,
        length_limit=config.length_limit,
        budget=config.budget,
        requests=config.requests,
        num_spec=config.num_spec,
        spec_method=config.spec_method,
        asynchronous=config.asynchronous,
        prefill_threshold=config.prefill_threshold,
        policy=config.policy,
        retention=config.retention,
        match_unit=config.match_unit,
        shared_prefix_checkpoint=config.shared_prefix_checkpoint,
    )

"""The judge of campaigns inside an engine's process: it draws sequences, runs each on an engine of its own with fixes
switched on, and answers as the judge of step sequences does."""

from __future__ import annotations

import contextlib
import functools
import gc
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from harness.case.production_defaults import deviations
from harness.case.sequence import Layers, SequenceCase, decode_sequence, encode_sequence
from harness.end_to_end.campaign_messages import (
    STATES,
    AboutEngines,
    DrawnOnEngines,
    WhichSequence,
)
from harness.end_to_end.inside.judge import EngineJudge, import_release
from harness.end_to_end.inside.runner_fixes import CannotFix, switched_on, without_form
from harness.end_to_end.messages import EngineAssignment, EngineOptions, RunSequence, SequenceAnswer, model_of
from harness.end_to_end.offers import OFFERS, why_no_run
from harness.end_to_end.recipe import LayerFacts, engine_sequence_at
from harness.end_to_end.verdict import result_of
from harness.kernels.targets.vllm.scheduling.loading import use_imported
from harness.refusal import Refusal
from harness.sequences.controls import Controls
from harness.sequences.judge import AboutDefaults, about_defaults
from harness.sequences.result import RESULTS, RunResult
from harness.worker.judge import Channel, Judge

_ENCODER = msgspec.msgpack.Encoder()
_CONTROLS = msgspec.msgpack.Decoder(Controls)
_DRAWN = msgspec.msgpack.Decoder(DrawnOnEngines)

ENGINE_ALONE = EngineOptions(mamba_layers=1, plain=True, num_blocks=64, length_limit=1024)
"""An engine that runs plainly."""

TRIES = (2, 20)
"""How often each kind of damage is tried before a model is used; more often where one was missed. One try of twenty may
pass unnoticed."""


def make(text: str, channel: Channel) -> Judge:
    """Import the release and replace what the CPU lacks. Raises Refusal if the environment cannot run it."""
    assignment = msgspec.json.decode(text, type=EngineAssignment)
    import_release()
    return CampaignJudge(assignment, channel)


class CampaignJudge(EngineJudge):
    """Judges sequences."""

    def __init__(self, assignment: EngineAssignment, channel: Channel) -> None:
        super().__init__(assignment, channel)
        self._sensitive: set[Any] = set()
        import vllm

        self._spare_time()

        use_imported(Path(vllm.__file__).parents[1], f"vllm {vllm.__version__}")

    def _spare_time(self) -> None:
        """Leave out what an engine does once in the life of a server, and would do for each sequence here."""
        from vllm.platforms import current_platform

        self._engine(EngineOptions(mamba_layers=1, budget=64, requests=2)).close()
        self._replacer.in_module(
            "vllm.v1.engine.core",
            {"freeze_gc_heap": lambda: None},
            "nothing",
            "engines come and go in this process: frozen ones would never be freed",
        )
        if hasattr(current_platform, "register_triton_kernel_overrides"):
            self._replacer.attribute(
                type(current_platform),
                "register_triton_kernel_overrides",
                classmethod(lambda cls: None),
                "nothing, but for the first engine",
                "its search through all modules takes half a second, and finds the same again",
            )
        gc.collect()
        gc.freeze()  # what was imported lives as long as the process

    def judge(self, case: bytes, how: bytes) -> bytes:
        """A sequence without a step says nothing, and does not count as a pass."""
        result = self.checked(decode_sequence(case), _CONTROLS.decode(how))
        if result.violation is None and result.skipped is None and not result.steps:
            result.skipped = "the engine had nothing to do: no step was run"
        return RESULTS.encode(result)

    def judge_drawn(self, recipe: bytes, index: int) -> tuple[bytes, bytes | None, float]:
        self.channel.at("sequence")
        began = time.perf_counter()
        drawn = _drawn(recipe)
        case = engine_sequence_at(drawn.recipe, index)
        seconds = time.perf_counter() - began
        result = self.checked(case, drawn.controls)
        return RESULTS.encode(result), encode_sequence(case) if result.violation is not None else None, seconds

    def ask(self, question: str, content: bytes) -> bytes:
        """`engines`: what engines of this release are, and which fixes have no form for them. `defaults`: production's
        defaults. STATES: which state of a failing sequence is wrong first, in lines."""
        if question == "engines":
            fixes = msgspec.msgpack.decode(content, type=tuple[str, ...])
            return _ENCODER.encode(AboutEngines(self._layers(), without_form(fixes)))
        if question == "defaults":
            return _ENCODER.encode(_defaults())
        if question == STATES:
            return _ENCODER.encode(self._first_wrong_states(msgspec.msgpack.decode(content, type=WhichSequence)))
        return super().ask(question, content)

    def checked(self, case: SequenceCase, controls: Controls) -> RunResult:
        """Run a sequence, and say what is wrong with it. Raises Refusal if the model does not notice damage."""
        impossible = why_no_run(case)
        if impossible is not None:
            return RunResult(None, impossible, -1, 0, 0.0, {})
        start = time.process_time()
        self._require_sensitive(case)
        try:
            result = result_of(self._answer(case, controls))
        except CannotFix as cannot:
            return RunResult(None, str(cannot), -1, 0, 0.0, {})
        result.seconds = time.process_time() - start
        if result.violation is not None and (defaults := _defaults().defaults) is not None:
            result.settings = list(deviations(case, defaults))
        return result

    def _answer(self, case: SequenceCase, controls: Controls, before: Any = None) -> SequenceAnswer:
        """Run a sequence on an engine of its own; `before` is called with the engine before the first event."""

        @contextlib.contextmanager
        def prepared(engine: Any) -> Iterator[None]:
            with switched_on(engine, case, controls.fixes):
                if before is not None:
                    before(engine)
                yield

        try:
            return self._run(RunSequence(sequence=case), prepared)
        finally:
            gc.collect()  # an engine's objects refer to each other

    def _require_sensitive(self, case: SequenceCase) -> None:
        from harness.end_to_end.inside.sensitivity import measure

        model = model_of(case.config)
        if model in self._sensitive:
            return
        self.channel.at("sensitivity")
        for tries in TRIES:  # one that is missed by chance is asked for more often
            found = measure(self._engine, self.plain(model), model, tries)
            missed = [kind for kind, noticed in found.noticed.items() if noticed < tries - tries // 20]
            if not missed:
                break
        if missed:
            raise Refusal(f"the model does not notice {missed[0]}, so right tokens would say nothing")
        self._sensitive.add(model)
        gc.collect()
        gc.freeze()  # the engine of the plain run stays

    def _layers(self) -> dict[Layers, LayerFacts]:
        """What the layers of each offer are on an engine."""
        found: dict[Layers, LayerFacts] = {}
        for offer in OFFERS:
            kind = offer.pins.layers
            if kind is None or kind == "any" or kind in found:
                continue
            engine = self._engine(EngineOptions(mamba_layers=1, layers=kind, budget=64, requests=2))
            facts = engine.facts()
            engine.close()
            found[kind] = LayerFacts(facts.window, facts.checkpoint_alignment)
        return found

    def _first_wrong_states(self, which: WhichSequence) -> list[str]:
        from harness.end_to_end.inside.state_reads import StateReads

        reads: list[StateReads] = []

        def watch(engine: Any) -> None:
            plain = self._engine(
                msgspec.structs.replace(
                    ENGINE_ALONE, mamba_layers=engine.options.mamba_layers, layers=engine.options.layers
                )
            )
            reads.append(StateReads(engine, plain))

        self._answer(which.sequence, which.controls, watch)
        return reads[0].lines() if reads else []


@functools.cache
def _defaults() -> AboutDefaults:
    return about_defaults()


@functools.lru_cache(maxsize=4)
def _drawn(text: bytes) -> DrawnOnEngines:
    return _DRAWN.decode(text)

"""An effect is what a fix changes in the loaded release; a fix without one says so, lest it be taken for the cause.

Whether a fix has one shows only on an engine and its worker: some replace a function where a release has it, others
switch a rule of the worker that a release may have already.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

from harness.case.sequence import SequenceConfig
from harness.kernels.targets.vllm.scheduling.engine import Engine, ReleaseLacks
from harness.kernels.targets.vllm.scheduling.loading import module
from harness.kernels.targets.vllm.scheduling.worker_v1 import WorkerV1
from harness.kernels.targets.vllm.scheduling.worker_v2 import WorkerV2
from harness.sequences.controls import Controls
from harness.sequences.recipe import SequenceRecipe, sequence_at

CONFIGURATIONS = 32
"""Drawn ones, tried in turn: they have every option that a fix depends on."""


def without_effect(fixes: Iterable[str]) -> list[str]:
    """Those of `fixes` that change nothing in the loaded release, whatever its configuration."""
    left = [name for name in fixes if name not in _of_runs()]
    for index in range(CONFIGURATIONS):
        config = sequence_at(SequenceRecipe(0), index).config
        left = [name for name in left if not _changes(name, config)]
        if not left:
            break
    return left


def _of_runs() -> Iterator[str]:
    """Fixes that are no change of an engine or its worker, but of how they are run, and have an effect here."""
    yield "drained-queue"
    if "async_tokens_to_discard" in inspect.getsource(module("vllm.v1.request").Request):
        yield "discard-frames"


def _changes(name: str, config: SequenceConfig) -> bool:
    try:
        engine = Engine(config)
        worker = WorkerV1(engine) if config.runner == "V1" else WorkerV2(engine)
    except ReleaseLacks:
        return False
    production = [engine.scheduler, *engine.manager.coordinator.single_type_managers]
    ours = [worker, worker.checkpoints]
    before = [dict(vars(one)) for one in (*production, *ours)]
    Controls(fixes=(name,)).apply(engine, worker)
    after = [vars(one) for one in (*production, *ours)]
    # A function of production is replaced by an attribute; a switch that a worker has not is nothing to it.
    return any(
        _differ(old, new, added=place < len(production))
        for place, (old, new) in enumerate(zip(before, after, strict=True))
    )


def _differ(old: dict[str, Any], new: dict[str, Any], *, added: bool) -> bool:
    return (added and old.keys() != new.keys()) or any(new[key] is not value for key, value in old.items())

"""Sensitivity is whether the model notices damage: each kind of it has to change tokens within a few steps.

The damage is done to the cache of a running engine, between two steps. A kind that passes unnoticed would make every
"the tokens are right" worthless, so a model that notices too little of one kind is refused.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import torch

from harness.end_to_end.inside.engine import RunningEngine
from harness.end_to_end.inside.plain_run import PlainRun
from harness.end_to_end.messages import EngineOptions, ModelKind, Sensitivity
from harness.end_to_end.spelling import FIRST_TOKEN, VOCABULARY

WITHIN = 10
"""Tokens within which damage has to show."""

BLOCK = 32
STEPS_BEFORE = 6

Snapshot = Mapping[str, list[torch.Tensor]]


class Patient:
    """An engine with two requests, and where their states are."""

    def __init__(self, engine: RunningEngine, requests: tuple[str, str]) -> None:
        self._engine, self.requests = engine, requests
        self._mamba = [
            (number, group.layer_names)
            for number, group in enumerate(engine.scheduler.kv_cache_config.kv_cache_groups)
            if hasattr(group.kv_cache_spec, "mamba_type")
        ]
        self._attention = [
            (number, group.layer_names)
            for number, group in enumerate(engine.scheduler.kv_cache_config.kv_cache_groups)
            if not hasattr(group.kv_cache_spec, "mamba_type")
        ]

    def snapshot(self, request: str) -> Snapshot:
        """The states of a request, by layer."""
        return {layer: [tensor.clone() for tensor in tensors] for layer, tensors in self._states(request)}

    def restore(self, request: str, snapshot: Snapshot, parts: tuple[int, ...] = (0, 1)) -> None:
        """Give a request other states; `parts` are 0 for the window, 1 for the temporal state."""
        for layer, tensors in self._states(request):
            for part in parts:
                tensors[part].copy_(snapshot[layer][part])

    def clear(self, request: str, part: int) -> None:
        """Set a part of the states to zero."""
        for _, tensors in self._states(request):
            tensors[part].zero_()

    def swap_attention(self, request: str, other: str) -> None:
        """Give a request the first attention block of another one."""
        layers = self._engine.layers()
        for number, names in self._attention:
            mine, theirs = self._block(number, request, 0), self._block(number, other, 0)
            for name in names:
                for tensor in layers[name]:
                    axis = next(
                        axis for axis, size in enumerate(tensor.shape) if size == self._engine.facts().num_blocks
                    )
                    tensor.select(axis, mine).copy_(tensor.select(axis, theirs))

    def _states(self, request: str) -> list[tuple[str, list[torch.Tensor]]]:
        layers = self._engine.layers()
        batch = self._engine.runner.input_batch
        row = batch.req_id_to_index[request]
        column = (int(batch.num_computed_tokens_cpu[row]) + self._ran - 1) // BLOCK
        found = []
        for number, names in self._mamba:
            block = self._block(number, request, column)
            found += [(name, [tensor[block] for tensor in layers[name]]) for name in names]
        return found

    _ran = 1
    """Tokens of the last step, which the runner has not yet added to its count of computed tokens."""

    def _block(self, group: int, request: str, column: int) -> int:
        batch = self._engine.runner.input_batch
        table: Any = batch.block_table.block_tables[group].block_table
        return int(table.np[batch.req_id_to_index[request], column])


Damage = Callable[[Patient, list[Snapshot]], None]
"""Damages the first request; the snapshots are its states after each step so far."""

DAMAGES: dict[str, Damage] = {
    "a temporal state one token behind": lambda patient, past: patient.restore(patient.requests[0], past[-2], (1,)),
    "a window one token behind": lambda patient, past: patient.restore(patient.requests[0], past[-2], (0,)),
    "states four tokens old": lambda patient, past: patient.restore(patient.requests[0], past[-5]),
    "another request's states": lambda patient, past: patient.restore(
        patient.requests[0], patient.snapshot(patient.requests[1])
    ),
    "a window of zeros": lambda patient, past: patient.clear(patient.requests[0], 0),
    "a temporal state of zeros": lambda patient, past: patient.clear(patient.requests[0], 1),
    "another request's attention block": lambda patient, past: patient.swap_attention(*patient.requests),
}


def _options(model: ModelKind, *, budget: int) -> EngineOptions:
    """Those of an engine for two short requests; `budget` in tokens."""
    return EngineOptions(
        mamba_layers=model.count,
        layers=model.layers,
        attention_first=model.attention_first,
        requests=2,
        budget=budget,
        num_blocks=96,
        length_limit=256,
    )


def measure(
    make: Callable[[EngineOptions], RunningEngine], plain: PlainRun, model: ModelKind, tries: int
) -> Sensitivity:
    """How often each kind of damage is noticed. Undamaged requests have to say what the plain run says."""
    options = _options(model, budget=256)
    engine = make(options)
    engine.watch_kernels()
    if _is_noticed(engine, plain, lambda patient, past: None, "no damage"):
        raise AssertionError("an undamaged request says other tokens than the plain run")
    noticed = dict.fromkeys(DAMAGES, 0)
    for number in range(tries):
        for kind, damage in DAMAGES.items():
            noticed[kind] += _is_noticed(engine, plain, damage, f"{number} {kind}")
    return Sensitivity(noticed=noticed, tries=tries, within=WITHIN)


def _is_noticed(engine: RunningEngine, plain: PlainRun, damage: Damage, seed: str) -> bool:
    draw = random.Random(seed)
    prompts = [[draw.randrange(FIRST_TOKEN, VOCABULARY) for _ in range(draw.randrange(34, 58))] for _ in range(2)]
    names = (f"{seed}, damaged", f"{seed}, other")
    outputs = STEPS_BEFORE + WITHIN
    due = plain.after(prompts[0], outputs).tokens
    engine.watch_kernels()
    for name, prompt in zip(names, prompts, strict=True):
        engine.add(name, prompt, outputs)
    said: list[int] = []
    past: list[Snapshot] = []
    patient = Patient(engine, names)
    while engine.scheduler.has_requests():
        for output in engine.step():
            if output.request_id == names[0]:
                said += output.new_token_ids
        if len(said) < STEPS_BEFORE:
            past.append(patient.snapshot(names[0]))
        elif len(said) == STEPS_BEFORE:
            past.append(patient.snapshot(names[0]))
            if said != due[:STEPS_BEFORE]:
                raise AssertionError("an undamaged request says other tokens than the plain run")
            damage(patient, past)
    engine.core.reset_prefix_cache()
    return said != due


def noise(make: Callable[[EngineOptions], RunningEngine], plain: PlainRun, model: ModelKind) -> float:
    """The largest difference between the margins of clean runs that cut the same prompts in other ways."""
    options = _options(model, budget=40)
    largest = 0.0
    again = PlainRun(make(options))
    draw = random.Random(0)
    for length in (5, 45, 97):
        prompt = [draw.randrange(FIRST_TOKEN, VOCABULARY) for _ in range(length)]
        here, there = plain.after(prompt, 24), again.after(prompt, 24)
        if here.tokens != there.tokens:
            raise AssertionError("two clean runs of the model say different tokens")
        largest = max(largest, *(abs(a - b) for a, b in zip(here.margins, there.margins, strict=True)))
    return largest

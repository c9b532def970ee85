"""The sequence benchmark: engine steps a second of one core, symbolically and with bytes.

Each sequence is run once to warm up, which imports and compiles what it needs, then once in every round; arms take
turns within a round. Time is processor time of the worker that runs the sequences, including building their engines.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import msgspec

from harness.generators.sequences.configurations import Pins
from harness.issues.registry import DEFAULT_FIXES
from harness.sequences.controls import Controls
from harness.sequences.judge import HOST_EVERY
from harness.sequences.kernels import KernelChoice, KernelSide
from harness.sequences.recipe import SequenceRecipe, sequence_at
from harness.sequences.result import RESULTS, RunResult
from harness.sequences.worker import SequenceWorker, recipe_text
from harness.worker.losses import WorkerError, WorkerLost
from harness.worker.messages import CaseResult

SEED = 900
CONTROLS = Controls(fixes=DEFAULT_FIXES)


class SequenceSpeed(msgspec.Struct):
    """One arm: engine steps of a round, and medians over rounds."""

    name: str
    steps: int
    microseconds_per_step: float
    steps_per_second: float


Results = list[tuple[int, RunResult]]
"""The results of sequences, each with its index."""


def measure(
    target: str, byte_targets: Sequence[str], executor: str, sequences: int, rounds: int
) -> list[SequenceSpeed]:
    """Run the first `sequences` of each runner `rounds` times; with bytes, of both runners mixed, through the kernels
    of each of `byte_targets`. Raises WorkerRefused or WorkerError; ValueError if an arm has no step."""
    choices = [None, *(KernelChoice(name, executor) for name in byte_targets)]
    workerren = [SequenceWorker(target, KernelSide(choice)) for choice in choices]
    try:
        for worker in workerren:
            worker.wait_ready()
        symbolic, *on_bytes = workerren
        arms: dict[str, Callable[[], Results]] = {
            "V1": lambda: _range(symbolic, Pins(runner="V1"), sequences),
            "V2": lambda: _range(symbolic, Pins(runner="V2"), sequences),
            "V1, with host code in every sequence": lambda: _each(symbolic, Pins(runner="V1"), sequences),
            "V2, with host code in every sequence": lambda: _each(symbolic, Pins(runner="V2"), sequences),
        }
        for name, worker in zip(byte_targets, on_bytes, strict=True):
            arms[f"bytes, {name}"] = lambda worker=worker: _range(worker, Pins(), sequences)  # type: ignore[misc]
        found: dict[str, list[Results]] = {}
        for turn in range(rounds + 1):
            for name, run in arms.items():
                results = run()
                if turn:
                    found.setdefault(name, []).append(results)
    finally:
        for worker in workerren:
            worker.close()
    for runner, every in HOST_EVERY.items():
        alone = [[pair for pair in results if pair[0] % every] for results in found[runner]]
        found[f"{runner}, our model of the host code alone"] = alone
    return [_speed(name, of_rounds) for name, of_rounds in found.items() if any(of_rounds)]


def _range(worker: SequenceWorker, pins: Pins, sequences: int) -> Results:
    """Run sequences as a campaign does, with host code in some. Raises WorkerError if the worker is lost."""
    results: Results = []
    try:
        worker.send_range(recipe_text(SequenceRecipe(SEED, pins), CONTROLS), 0, sequences)
        while isinstance(reply := worker.receive(), CaseResult):
            results.append((reply.index, RESULTS.decode(reply.result)))
    except WorkerLost as lost:
        raise WorkerError(f"the worker was lost: {lost.violation}", lost.index) from lost
    return results


def _each(worker: SequenceWorker, pins: Pins, sequences: int) -> Results:
    """Run sequences one by one, with host code in all."""
    recipe = SequenceRecipe(SEED, pins)
    return [(index, worker.check(sequence_at(recipe, index), CONTROLS)) for index in range(sequences)]


def _speed(name: str, of_rounds: list[Results]) -> SequenceSpeed:
    steps = sum(result.steps for _, result in of_rounds[0])
    if not steps:
        raise ValueError(f"{name}: no step was run")
    seconds = statistics.median(sum(result.seconds for _, result in results) for results in of_rounds)
    return SequenceSpeed(name, steps, round(seconds / steps * 1e6, 1), round(steps / seconds, 1))

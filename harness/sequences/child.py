"""A child drives one release: it runs the sequences it is sent, in a process of its own with a fixed hash seed.

Run as `python -m harness.sequences.child`, with the number of an inherited socket, a target, what to do beside
(Beside, as JSON). Messages are pairs (kind, content), pickled.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import gc
import os
import sys
import threading
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from harness.case import Case, encode_case
from harness.case.operations import Runner
from harness.case.sequence import SequenceCase, decode_sequence, encode_sequence
from harness.check import whereabouts
from harness.check.parent import end_with_parent
from harness.repro.store import write_whole
from harness.sequences.controls import Controls
from harness.sequences.kernels import Beside, Kernels
from harness.sequences.recipe import SequenceRecipe, sequence_at
from harness.sequences.result import RESULTS, RunResult, not_run

HOST_EVERY: dict[Runner, int] = {"V1": 32, "V2": 8}
"""Of sequences drawn in bulk, one in so many runs the release's host code beside our model of it. A single sequence
always does. `harness bench sequences` measures the cost: of V1 2.5 ms a step with it and 0.6 ms without, so one in 32
makes V1 steps a tenth dearer; of V2 1.56 ms and 0.49 ms, so one in eight makes V2 steps a quarter dearer. Much of V1
is the release's own code in every sequence."""


def serve(connection: Connection, target: str, beside: Beside) -> None:
    """Load the kernels and the target, then answer until the other side hangs up."""
    from harness.kernels.executors.base import KernelDoesNotCompile
    from harness.kernels.executors.registry import UnavailableExecutor
    from harness.kernels.targets.base import UnknownTarget
    from harness.kernels.targets.vllm.scheduling.loading import load

    try:
        kernels = None if beside.kernels is None else Kernels(beside.kernels)
        sources = load(target).directory
    except (UnknownTarget, UnavailableExecutor) as error:
        connection.send(("refused", " ".join(str(error).split())))
        return
    if threading.current_thread() is threading.main_thread():
        prefix = str(sources)
        whereabouts.answer(None if kernels is None else kernels.executor, lambda file: file.startswith(prefix))
    connection.send(("ready", None))
    while True:
        try:
            kind, content = connection.recv()
        except EOFError:
            return
        try:
            if kind == "check":
                _check(connection, kernels, *content)
            elif kind == "effects":
                _effects(connection, content)
            else:
                _range(connection, kernels, beside.cases, *content)
        except (UnknownTarget, KernelDoesNotCompile) as error:
            connection.send(("refused", " ".join(str(error).split())))
        except _NotKept as error:
            connection.send(("unsaved", error.args))
        except (Exception, SystemExit):  # an exit that is nobody's finding would end the child without a word
            connection.send(("error", traceback.format_exc()))


def _run(
    case: SequenceCase,
    controls: Controls,
    kernels: Kernels | None,
    keep: _Keeper | None = None,
    host: bool = True,
) -> RunResult:
    """Run one sequence; on our model alone where the host code turns out to need more than is made for it."""
    from harness.kernels.targets.vllm.scheduling.engine import ReleaseLacks
    from harness.kernels.targets.vllm.scheduling.pairing import HostCodeLacks
    from harness.sequences.run import SequenceRun

    _import_host_code(case.config.runner)
    start = time.process_time()
    try:
        result = SequenceRun(case, controls, kernels, keep, host).run()
    except ReleaseLacks as lacks:
        return RunResult(None, str(lacks), -1, 0, 0.0, {})
    except HostCodeLacks as lacks:
        if keep is not None:
            keep.begin()
        result = SequenceRun(case, controls, kernels, keep, host=False).run()
        result.host_code_lacks = str(lacks)
        result.counters[not_run(case.config.runner, result.host_code_lacks)] = 1
    result.seconds = time.process_time() - start
    return result


@functools.cache
def _import_host_code(runner: Runner) -> None:
    """Once: what takes seconds to import is no part of the time of the first sequence."""
    from harness.kernels.targets.base import UnknownTarget
    from harness.kernels.targets.vllm.scheduling.loading import module

    with contextlib.suppress(UnknownTarget):  # the worker that needs it tells
        module("vllm.v1.worker.gpu_model_runner" if runner == "V1" else "vllm.v1.worker.gpu.model_runner")
    _spare_collector()


def _spare_collector() -> None:
    """What was imported lives as long as the process: the garbage collector need not look at it again and again. A
    sequence leaves an engine of some ten thousand objects, so looking that often is enough."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def _check(connection: Connection, kernels: Kernels | None, text: bytes, controls: Controls) -> None:
    """Run one sequence; answers `result`. One without a step answers nothing, and is no pass."""
    result = _run(decode_sequence(text), controls, kernels)
    if result.violation is None and result.skipped is None and not result.steps:
        result.skipped = "the engine had nothing to do: no step was run"
    connection.send(("result", (-1, RESULTS.encode(result), None)))


def _effects(connection: Connection, fixes: tuple[str, ...]) -> None:
    """Answers `effects` with those fixes that have none here."""
    from harness.sequences.effects import without_effect

    connection.send(("effects", without_effect(fixes)))


class _NotKept(Exception):
    """A kernel case that could not be written: what, and the error's number, words and file."""


class _Keeper:
    """Writes the kernel cases of one sequence to a folder."""

    def __init__(self, folder: Path, recipe: SequenceRecipe, index: int) -> None:
        self._folder, self._name = folder, f"sequence-{recipe.seed}-{index}"
        self.begin()

    def begin(self) -> None:
        """From the first case on, over those that are there."""
        self._count = 0

    def __call__(self, case: Case) -> None:
        path = self._folder / f"{self._name}-{self._count:03}.json"
        try:  # a child may be killed at any moment, and leaves no half case
            write_whole(path, msgspec.json.format(encode_case(case), indent=1))
        except OSError as error:
            number = error.errno or errno.EIO
            raise _NotKept("a kernel case of a sequence", number, os.strerror(number), str(path)) from error
        self._count += 1


def _range(
    connection: Connection,
    kernels: Kernels | None,
    cases: str | None,
    recipe: SequenceRecipe,
    start: int,
    stop: int,
    controls: Controls,
) -> None:
    """Draw and run sequences; answers a `result` each, then `done`. Their kernel cases go to the folder `cases`."""
    for index in range(start, stop):
        connection.send(("at", index))
        case = sequence_at(recipe, index)
        keep = None if cases is None else _Keeper(Path(cases), recipe, index)
        result = _run(case, controls, kernels, keep, index % HOST_EVERY[case.config.runner] == 0)
        text = encode_sequence(case) if result.violation is not None else None
        connection.send(("result", (index, RESULTS.encode(result), text)))
    connection.send(("done", stop))


def main() -> None:
    connection = Connection(int(sys.argv[1]))
    end_with_parent()
    whereabouts.hold_question()
    try:
        serve(connection, sys.argv[2], msgspec.json.decode(sys.argv[3], type=Beside))
    except (BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        return


if __name__ == "__main__":
    main()

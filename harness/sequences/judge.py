"""The judge of step sequences: it drives one release's own scheduler, in a worker process with a fixed hash seed."""

from __future__ import annotations

import contextlib
import functools
import gc
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from harness.case import Case, encode_case
from harness.case.operations import Runner
from harness.case.production_defaults import ProductionDefaults, deviations
from harness.case.sequence import SequenceCase, decode_sequence, encode_sequence
from harness.files import NotSaved, write_whole
from harness.kernels.targets.vllm.base_release import BaseRelease
from harness.kernels.targets.vllm.edits import Edit, edits_of
from harness.kernels.targets.vllm.probes import Probes
from harness.kernels.targets.vllm.scheduling.loading import has_base
from harness.kernels.targets.vllm.sources import SourceTree
from harness.sequences.controls import Controls
from harness.sequences.kernels import Kernels, KernelSide
from harness.sequences.lost import lost_attribute, lost_lines, lost_of, lost_with_fixes
from harness.sequences.recipe import SequenceRecipe, sequence_at
from harness.sequences.result import RESULTS, RunResult, not_run
from harness.subject.edits import QUESTION, EditedLines, answer
from harness.worker import stack_location
from harness.worker.judge import Channel, Judge

HOST_EVERY: dict[Runner, int] = {"V1": 32, "V2": 8}
"""In a campaign, one in so many sequences also runs the release's host code, next to our model of it. A single sequence
always does. `harness bench sequences` measures the cost: for V1 2.5 ms a step with it and 0.6 ms without, so one in 32
makes V1 steps a tenth slower; for V2 1.56 ms and 0.49 ms, so one in eight makes V2 steps a quarter slower. A large part
of V1 is the release's own code in every sequence. Where an edit is in what may be host code, it runs in each."""

HOST_CODE = ("vllm/v1/worker/", "vllm/v1/attention/", "vllm/v1/sample/", "vllm/v1/spec_decode/")
"""Folders of what runners call in a step."""


class SequenceAssignment(msgspec.Struct, frozen=True):
    """What a worker is started with. `base` is the target's base release, with the changed files whose edits are
    watched; None: it is a release, or that is not known."""

    target: str
    kernel_side: KernelSide
    base: BaseRelease | None = None


class AboutEdits(msgspec.Struct, frozen=True):
    """What is known of a checkout once it is loaded, in lines: what it has lost, and rules of which it changed the
    words."""

    lost: list[str]
    rules: list[str]


class DrawnSequences(msgspec.Struct, frozen=True):
    """The recipe of a campaign's sequences, and the controls that they are run with."""

    recipe: SequenceRecipe
    controls: Controls


class AskedSequence(msgspec.Struct, frozen=True):
    """A sequence, and the controls that it is run with."""

    sequence: SequenceCase
    controls: Controls


ENCODER = msgspec.msgpack.Encoder()
_DRAWN = msgspec.msgpack.Decoder(DrawnSequences)
_CONTROLS = msgspec.msgpack.Decoder(Controls)


def make(text: str, channel: Channel) -> Judge:
    """Load the kernels and the release. Raises Refusal if one of them is not available."""
    return SequenceJudge(msgspec.json.decode(text, type=SequenceAssignment), channel)


class SequenceJudge(Judge):
    """Drives a release."""

    def __init__(self, assignment: SequenceAssignment, channel: Channel) -> None:
        super().__init__(channel)
        from harness.kernels.targets.vllm.scheduling.loading import load

        kernel_side = assignment.kernel_side
        self._kernels = None if kernel_side.kernels is None else Kernels(kernel_side.kernels)
        self._folder = None if kernel_side.cases is None else Path(kernel_side.cases)
        base = assignment.base
        loaded = load(assignment.target, base)
        prefix = str(loaded.directory)
        self._edits: list[Edit] = []
        if base is not None:
            tree = SourceTree(loaded.directory, loaded.origin, stable=False)
            self._edits = [edit for edit in edits_of(tree, base) if not edit.kernel]
            self._probes = Probes(tree, self._edits)
        self._edits_host_code = any(edit.file.startswith(HOST_CODE) for edit in self._edits)
        if threading.current_thread() is threading.main_thread():
            executor = None if self._kernels is None else self._kernels.executor
            stack_location.answer(executor, lambda file: file.startswith(prefix))

    def judge(self, case: bytes, how: bytes) -> bytes:
        """A sequence without a step says nothing, and does not count as a pass."""
        self.channel.at("sequence")
        sequence = decode_sequence(case)
        self._plant(sequence.config.runner)
        result = self._run(sequence, how)
        if result.violation is not None and self._edits and self._probes.plant():
            result = self._run(sequence, how)  # it imported code that is watched only now
        if result.violation is None and result.skipped is None and not result.steps:
            result.skipped = "the engine had nothing to do: no step was run"
        return RESULTS.encode(result)

    def _run(self, sequence: SequenceCase, how: bytes) -> RunResult:
        with self._edits_apart() as ran:
            result = run(sequence, _CONTROLS.decode(how), self._kernels)
            result.edits = ran(result)
        return result

    def judge_drawn(self, recipe: bytes, index: int) -> tuple[bytes, bytes | None, float]:
        """The kernel cases of the sequence go to the folder that the assignment names."""
        self.channel.at("sequence")
        began = time.perf_counter()
        drawn = _drawn(recipe)
        case = sequence_at(drawn.recipe, index)
        seconds = time.perf_counter() - began
        self._plant(case.config.runner)
        lost = lost_with_fixes(case, drawn.controls.fixes)
        if lost is not None:
            return RESULTS.encode(RunResult(None, lost, -1, 0, 0.0, {})), None, seconds
        keep = None if self._folder is None else _Keeper(self._folder, drawn.recipe, index)
        runner = case.config.runner
        host = self._edits_host_code or index % HOST_EVERY[runner] == 0 or _has_other_rules(runner)
        with self._edits_apart() as ran:
            result = run(case, drawn.controls, self._kernels, keep, host)
            result.edits = ran(result)
        return RESULTS.encode(result), encode_sequence(case) if result.violation is not None else None, seconds

    def _plant(self, runner: Runner) -> None:
        """Watch the edits of what has been imported by now, and of the host code of a runner."""
        if self._edits:
            _import_host_code(runner)
            self._probes.plant()

    @contextlib.contextmanager
    def _edits_apart(self) -> Iterator[Callable[[RunResult], tuple[EditedLines, ...]]]:
        """Gives what says which edited lines a case with a violation ran, of those that run meanwhile."""
        if not self._edits:
            yield lambda result: ()
            return
        with self._probes.apart():
            yield lambda result: () if result.violation is None else tuple(map(_lines_of, self._probes.ran()))

    def ask(self, question: str, content: bytes) -> bytes:
        """`effects`: the fixes, of those given, that change nothing in this release. `edits`: what is known of a
        checkout's edits, with these fixes on. `planned steps`: what the runner of a sequence gives its rows.
        `defaults`: production's defaults. QUESTION: which edited lines ran."""
        if question == "edits":
            from harness.sequences.runner_models import changed_rules

            fixes = msgspec.msgpack.decode(content, type=tuple[str, ...])
            return ENCODER.encode(AboutEdits(list(lost_lines(fixes)), changed_rules()))
        if question == QUESTION:
            ran = self._probes.ran() if self._edits else []
            return answer(*(list(map(_lines_of, edits)) for edits in (self._edits, ran)))
        if question == "planned steps":
            from harness.sequences.planned_steps import planned_steps

            drawn = msgspec.msgpack.decode(content, type=AskedSequence)
            return ENCODER.encode(planned_steps(drawn.sequence, drawn.controls))
        if question == "defaults":
            return ENCODER.encode(about_defaults())
        if question != "effects":
            return super().ask(question, content)
        from harness.sequences.effects import without_effect

        return ENCODER.encode(without_effect(msgspec.msgpack.decode(content, type=tuple[str, ...])))


class AboutDefaults(msgspec.Struct, frozen=True):
    """Production's defaults, or why they are not known."""

    defaults: ProductionDefaults | None
    unknown: str | None = None


def about_defaults() -> AboutDefaults:
    """Those of the loaded release."""
    from harness.kernels.targets.vllm.scheduling.production import DefaultsUnknown, production_defaults

    try:
        return AboutDefaults(production_defaults())
    except DefaultsUnknown as unknown:
        return AboutDefaults(None, str(unknown))


@functools.lru_cache(maxsize=4)
def _drawn(text: bytes) -> DrawnSequences:
    return _DRAWN.decode(text)


def run(
    case: SequenceCase,
    controls: Controls,
    kernels: Kernels | None,
    keep: _Keeper | None = None,
    host: bool = True,
) -> RunResult:
    """Run one sequence. Raises DeviceFault if the device of the kernels is gone."""
    try:
        result = _run(case, controls, kernels, keep, host)
        if kernels is not None:
            kernels.executor.settle()
        return result
    except Exception as error:
        if kernels is not None:
            kernels.end_with_the_device(error)
        raise


def _run(
    case: SequenceCase, controls: Controls, kernels: Kernels | None, keep: _Keeper | None, host: bool
) -> RunResult:
    """Run one sequence, on our model alone if the host code turns out to need objects that we do not provide."""
    from harness.kernels.targets.vllm.scheduling.engine import ReleaseLacks
    from harness.kernels.targets.vllm.scheduling.runner_pair import HostCodeLacks
    from harness.sequences.run import SequenceRun

    lost = lost_of(case.config.runner)
    if lost is not None:
        return RunResult(None, lost, -1, 0, 0.0, {})

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
    except AttributeError as error:
        lost = lost_attribute(error)
        if lost is None:
            raise
        return RunResult(None, lost, -1, 0, 0.0, {})
    result.seconds = time.process_time() - start
    if result.violation is not None and (defaults := about_defaults().defaults) is not None:
        result.settings = list(deviations(case, defaults))
    return result


@functools.cache
def _has_other_rules(runner: Runner) -> bool:
    """Whether an edit changed the words of a rule. Then the host code has to show what it does now."""
    from harness.sequences.runner_models import own_rules, release_rules

    return has_base() and own_rules(runner) != release_rules(runner)


@functools.cache
def _import_host_code(runner: Runner) -> None:
    """Import it once in advance: imports that take seconds must not count as time of the first sequence."""
    from harness.kernels.targets.base import UnknownTarget
    from harness.kernels.targets.vllm.scheduling.loading import module

    with contextlib.suppress(UnknownTarget):  # a sequence that needs it reports it
        module("vllm.v1.worker.gpu_model_runner" if runner == "V1" else "vllm.v1.worker.gpu.model_runner")
    _spare_collector()


def _spare_collector() -> None:
    """Exempt imported objects from garbage collection, since they live as long as the process. A sequence leaves an
    engine of some ten thousand objects, so collecting that often is enough."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


class _Keeper:
    """Writes the kernel cases of one sequence to a folder."""

    def __init__(self, folder: Path, recipe: SequenceRecipe, index: int) -> None:
        self._folder, self._name = folder, f"sequence-{recipe.seed}-{index}"
        self.begin()

    def begin(self) -> None:
        """Start again from the first case, overwriting existing files."""
        self._count = 0

    def __call__(self, case: Case) -> None:
        path = self._folder / f"{self._name}-{self._count:03}.json"
        try:  # a worker may be killed at any moment, and must not leave half a case
            write_whole(path, msgspec.json.format(encode_case(case), indent=1))
        except OSError as error:
            raise NotSaved("a kernel case of a sequence", error) from error
        self._count += 1


def _lines_of(edit: Edit) -> EditedLines:
    return EditedLines(edit.file, edit.function, edit.lines)

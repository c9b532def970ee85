"""Everything of a release that is replaced so that its engine runs on a CPU. This list is all, and each report has
it."""

from __future__ import annotations

import builtins
import importlib
from collections.abc import Sequence
from typing import Any

from harness.end_to_end.inside.chosen_stop import RUNNER
from harness.end_to_end.inside.fused_kernels import FusedKernels
from harness.end_to_end.inside.layers_on_cpu import mend_layers
from harness.end_to_end.inside.no_streams import without_streams
from harness.end_to_end.inside.overruling import list_overruled
from harness.end_to_end.inside.recorded_steps import with_record
from harness.end_to_end.inside.replacing import Replacer
from harness.end_to_end.inside.scripting import script_runner
from harness.end_to_end.kinds import KINDS
from harness.kernels.mutations.registry import mutation

KERNELS = "vllm.v1.worker.mamba_utils"


def replace_all(replacer: Replacer, faults: Sequence[str] = ()) -> FusedKernels:
    """Replace what the CPU lacks. `faults` are planted in the fused kernels, by name. Returns these, which count their
    launches and refused accesses. Raises UnknownTarget for a fault that does not fit."""
    _mend_dispatcher(replacer)
    for kind in KINDS.values():
        modules = [importlib.import_module(f"harness.end_to_end.inside.{name}") for name in kind.arithmetic]
        ours = {name: value for module in modules for name, value in vars(module).items()}
        replacer.in_module(
            kind.release,
            {name: ours[stand_in] for name, stand_in in kind.functions.items()},
            "the same arithmetic in plain torch",
            "Triton has no CPU back end, and the CPU build's own lacks drafts and checkpoints",
        )
    mend_layers(replacer)
    fused = FusedKernels(KERNELS, [mutation(name) for name in faults])
    replacer.in_module(
        KERNELS,
        fused.kernels,
        "the release's own kernel, compiled for the CPU by the native executor, memory checks on",
        "Triton has no CPU back end",
    )
    script_runner(replacer, late=True)
    runner = importlib.import_module(RUNNER).GPUModelRunner
    runner._sample = with_record(runner._sample)  # it changes nothing
    without_streams(replacer)
    list_overruled(replacer)
    return fused


def install_kernels(fused: FusedKernels) -> None:
    """Put the fused kernels in place again: a worker of the CPU platform registers its own stand-in for one of them
    when it starts."""
    module = importlib.import_module(KERNELS)
    for name, kernel in fused.kernels.items():
        setattr(module, name, kernel)


def _mend_dispatcher(replacer: Replacer) -> None:
    """Let the platform's search for kernels pass over objects whose `vars` is no dictionary, such as functions of C
    libraries that the native executor has loaded: it fails on them."""
    try:
        dispatcher = importlib.import_module("vllm.triton_utils.dispatcher")
    except ImportError:
        return  # releases before it have no such search

    def dictionary_of(value: Any) -> dict[str, Any]:
        held = builtins.vars(value)
        return held if isinstance(held, dict) else {}

    replacer.attribute(
        dispatcher,
        "vars",
        dictionary_of,
        "a vars() that passes over objects of C libraries",
        "its search fails on them",
    )

"""Everything of a release that is replaced so that its engine runs on a CPU. This list is all, and each report has
it."""

from __future__ import annotations

import builtins
import importlib
from collections.abc import Sequence
from typing import Any

from harness.end_to_end.inside import scripted_drafter, scripted_model_drafter
from harness.end_to_end.inside.chosen_stop import with_chosen_stops
from harness.end_to_end.inside.device_tokens import with_device_tokens
from harness.end_to_end.inside.fused_kernels import FusedKernels
from harness.end_to_end.inside.late_counts import with_late_counts
from harness.end_to_end.inside.no_streams import without_streams
from harness.end_to_end.inside.overruling import list_overruled
from harness.end_to_end.inside.replacing import Replacer
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
    _without_experts(replacer)
    _as_on_a_gpu(replacer)
    fused = FusedKernels(KERNELS, [mutation(name) for name in faults])
    replacer.in_module(
        KERNELS,
        fused.kernels,
        "the release's own kernel, compiled for the CPU by the native executor, memory checks on",
        "Triton has no CPU back end",
    )
    _script(replacer)
    without_streams(replacer)
    list_overruled(replacer)
    return fused


def _script(replacer: Replacer) -> None:
    """What a sequence says, in the place of what a model or a device would do."""
    from vllm.v1.spec_decode.ngram_proposer import NgramProposer

    runner = importlib.import_module(scripted_model_drafter.RUNNER)
    kind = runner.GPUModelRunner
    replacer.attribute(
        kind,
        "_sample",
        with_device_tokens(with_chosen_stops(kind._sample)),
        "itself, and a stop token where the sequence has one",
        "what a real model says cannot be chosen",
    )
    replacer.attribute(
        kind,
        "_update_states_after_model_execute",
        with_late_counts(kind._update_states_after_model_execute),
        "itself; accepted counts of asynchronous engines reach the host when it waits for them",
        "on a CPU they are there at once",
    )
    replacer.attribute(
        NgramProposer, "propose", scripted_drafter.propose, "the drafts that the sequence says", "drafts are part of it"
    )
    drafter = scripted_model_drafter.scripted_model_drafter()
    replacer.in_module(
        scripted_model_drafter.RUNNER,
        dict.fromkeys(scripted_model_drafter.DRAFTERS, drafter),
        "the release's own drafter with the sequence's drafts in the place of a model",
        "drafts are part of it",
    )


def install_kernels(fused: FusedKernels) -> None:
    """Put the fused kernels in place again: a worker of the CPU platform registers its own stand-in for one of them
    when it starts."""
    module = importlib.import_module(KERNELS)
    for name, kernel in fused.kernels.items():
        setattr(module, name, kernel)


def _without_experts(replacer: Replacer) -> None:
    """Let a model of this family be without experts, as its layers may be: it asks for them when it is made."""
    model = importlib.import_module("vllm.model_executor.models.qwen3_next").QwenNextMixtureOfExperts
    replacer.attribute(
        model,
        "set_moe_parameters",
        lambda self: None,
        "nothing: the tiny model has no experts",
        "the CPU's experts take bfloat16 alone",
    )


def _as_on_a_gpu(replacer: Replacer) -> None:
    """Let gated delta nets run the code that they run on a GPU, around the arithmetic."""
    layer = importlib.import_module(KINDS["gated-delta-net"].release).QwenGatedDeltaNetAttention
    replacer.attribute(
        layer,
        "forward_cpu",
        layer.forward_cuda,
        "its own forward_cuda",
        "the CPU's takes bfloat16 and large heads alone",
    )


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

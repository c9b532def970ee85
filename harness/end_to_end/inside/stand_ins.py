"""Everything of a release that is replaced so that its engine runs on a CPU. This list is all, and each report has
it."""

from __future__ import annotations

import builtins
import importlib
from collections.abc import Sequence
from typing import Any

from harness.end_to_end.inside import chosen_stop, mamba2_layers, scripted_drafter
from harness.end_to_end.inside.fused_kernels import FusedKernels
from harness.end_to_end.inside.replacing import Replacer
from harness.kernels.mutations.registry import mutation

MIXER = "vllm.model_executor.layers.mamba.mamba_mixer2"
KERNELS = "vllm.v1.worker.mamba_utils"

_LAYERS = (
    "causal_conv1d_fn",
    "causal_conv1d_update",
    "selective_state_update",
    "mamba_chunk_scan_combined_varlen",
    "store_prefill_checkpoint",
)


def replace_all(replacer: Replacer, faults: Sequence[str] = ()) -> FusedKernels:
    """Replace what the CPU lacks. `faults` are planted in the fused kernels, by name. Returns these, which count their
    launches and refused accesses. Raises UnknownTarget for a fault that does not fit."""
    _mend_dispatcher(replacer)
    replacer.in_module(
        MIXER,
        {name: getattr(mamba2_layers, name) for name in _LAYERS},
        "the same arithmetic in plain torch",
        "Triton has no CPU back end, and the CPU build's own lacks drafts and checkpoints",
    )
    fused = FusedKernels(KERNELS, [mutation(name) for name in faults])
    replacer.in_module(
        KERNELS,
        fused.kernels,
        "the release's own kernel, compiled for the CPU by the native executor, memory checks on",
        "Triton has no CPU back end",
    )
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    replacer.attribute(
        GPUModelRunner,
        "_sample",
        chosen_stop.with_chosen_stops(GPUModelRunner._sample),
        "itself, and a stop token where the sequence has one",
        "what a real model says cannot be chosen",
    )
    from vllm.v1.spec_decode.ngram_proposer import NgramProposer

    replacer.attribute(
        NgramProposer, "propose", scripted_drafter.propose, "the drafts that the sequence says", "drafts are part of it"
    )
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

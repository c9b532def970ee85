"""What layers need on a CPU in addition to their arithmetic."""

from __future__ import annotations

import importlib

from harness.end_to_end.inside.replacing import Replacer


def mend_layers(replacer: Replacer) -> None:
    """Let gated delta nets run the code that they run on a GPU, around the arithmetic, and let their model be without
    experts, as its layers may be: it asks for them when it is made."""
    layers = importlib.import_module("vllm.model_executor.layers.mamba.gdn.qwen_gdn_linear_attn")
    layer = layers.QwenGatedDeltaNetAttention
    replacer.attribute(
        layer,
        "forward_cpu",
        layer.forward_cuda,
        "its own forward_cuda",
        "the CPU's takes bfloat16 and large heads alone",
    )
    model = importlib.import_module("vllm.model_executor.models.qwen3_next").QwenNextMixtureOfExperts
    replacer.attribute(
        model,
        "set_moe_parameters",
        lambda self: None,
        "nothing: the tiny model has no experts",
        "the CPU's experts take bfloat16 alone",
    )

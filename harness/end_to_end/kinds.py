"""A kind of engine is which layers keep states: the tiny model that has them, and the arithmetic that a CPU lacks.

Everything is named, and nothing imported: the process of an engine and scripts for maintainers take what they need.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from harness.case.sequence import Layers


class Kind(NamedTuple):
    """`model` is the module (of `inside`) whose function `write` makes a checkpoint. `release` is the module of vLLM
    with the layers; `functions` are what is replaced there, by name, with functions of the modules `arithmetic`."""

    model: str
    write: str
    arithmetic: tuple[str, ...]
    release: str
    functions: Mapping[str, str]


_CONVOLUTION = {name: name for name in ("causal_conv1d_fn", "causal_conv1d_update")}

KINDS: Mapping[Layers, Kind] = {
    "mamba2": Kind(
        model="tiny_mamba2",
        write="write_mamba2_hybrid",
        arithmetic=("convolution", "mamba2_layers"),
        release="vllm.model_executor.layers.mamba.mamba_mixer2",
        functions={
            **_CONVOLUTION,
            "selective_state_update": "selective_state_update",
            "mamba_chunk_scan_combined_varlen": "mamba_chunk_scan_combined_varlen",
            "store_prefill_checkpoint": "store_prefill_checkpoint",
        },
    ),
    "gated-delta-net": Kind(
        model="tiny_gated_delta_net",
        write="write_gated_delta_net_hybrid",
        arithmetic=("convolution", "gated_delta_net_layers"),
        release="vllm.model_executor.layers.mamba.gdn.qwen_gdn_linear_attn",
        functions={
            **_CONVOLUTION,
            "fused_post_conv_prep": "fused_post_conv_prep",
            "fla_chunk_gated_delta_rule": "chunk_gated_delta_rule",
            "fused_recurrent_gated_delta_rule_packed_decode": "fused_recurrent_gated_delta_rule_packed_decode",
            "fused_sigmoid_gating_delta_rule_update": "fused_sigmoid_gating_delta_rule_update",
        },
    ),
}
"""All kinds that an engine can have. Those of a sequence that are not here have no engine."""

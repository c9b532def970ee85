"""The tiny model with gated delta nets: a Qwen3-Next without experts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from harness.end_to_end.inside.tiny_model import HEAD, HIDDEN, LOUD, SHARED_CONFIG, WINDOW, Weights

KEY_HEADS = 2
VALUE_HEADS = 16
SIZE = 8
"""Of a key and of a value. With these sizes a page of states is one of attention in blocks of 32 tokens, up to 11
drafts."""


def write_gated_delta_net_hybrid(folder: Path, layers: int, seed: int, attention_first: bool) -> None:
    """A checkpoint with so many gated delta nets and one layer of attention, behind the first or in front of all."""
    kinds = ["linear_attention"] * layers
    kinds.insert(0 if attention_first else 1, "full_attention")
    config: dict[str, Any] = SHARED_CONFIG | {
        "architectures": ["Qwen3NextForCausalLM"],
        "model_type": "qwen3_next",
        "num_hidden_layers": len(kinds),
        "layer_types": kinds,
        "head_dim": HEAD,
        "num_experts": 0,
        "mlp_only_layers": list(range(len(kinds))),
        "linear_num_key_heads": KEY_HEADS,
        "linear_num_value_heads": VALUE_HEADS,
        "linear_key_head_dim": SIZE,
        "linear_value_head_dim": SIZE,
        "linear_conv_kernel_dim": WINDOW,
    }
    values = VALUE_HEADS * SIZE
    channels = 2 * KEY_HEADS * SIZE + values
    weights = Weights(seed)
    for number, kind in enumerate(kinds):
        layer = f"model.layers.{number}"
        weights.all |= {
            f"{layer}.input_layernorm.weight": torch.zeros(HIDDEN),  # what is added to 1
            f"{layer}.post_attention_layernorm.weight": torch.zeros(HIDDEN),
            f"{layer}.mlp.gate_proj.weight": weights.matrix(HIDDEN, HIDDEN),
            f"{layer}.mlp.up_proj.weight": weights.matrix(HIDDEN, HIDDEN),
            f"{layer}.mlp.down_proj.weight": weights.matrix(HIDDEN, HIDDEN),
        }
        if kind == "full_attention":
            weights.all |= {
                f"{layer}.self_attn.q_proj.weight": weights.matrix(4 * HEAD, HIDDEN),  # half of it are gates
                f"{layer}.self_attn.k_proj.weight": weights.matrix(HEAD, HIDDEN),
                f"{layer}.self_attn.v_proj.weight": weights.matrix(HEAD, HIDDEN),
                f"{layer}.self_attn.o_proj.weight": weights.matrix(HIDDEN, 2 * HEAD, gain=LOUD),
                f"{layer}.self_attn.q_norm.weight": torch.zeros(HEAD),
                f"{layer}.self_attn.k_norm.weight": torch.zeros(HEAD),
            }
        else:
            weights.all |= {
                f"{layer}.linear_attn.dt_bias": weights.uniform(VALUE_HEADS, low=-0.5, high=0.5),
                f"{layer}.linear_attn.A_log": torch.log(weights.uniform(VALUE_HEADS, low=0.02, high=0.17)),
                f"{layer}.linear_attn.conv1d.weight": weights.normal(channels, 1, WINDOW, scale=WINDOW**-0.5),
                f"{layer}.linear_attn.in_proj_qkvz.weight": weights.matrix(channels + values, HIDDEN),
                f"{layer}.linear_attn.in_proj_ba.weight": weights.matrix(2 * VALUE_HEADS, HIDDEN),
                f"{layer}.linear_attn.norm.weight": torch.ones(SIZE),
                f"{layer}.linear_attn.out_proj.weight": weights.matrix(HIDDEN, values, gain=LOUD),
            }
    weights.all["model.norm.weight"] = torch.zeros(HIDDEN)
    weights.write(folder, config)

"""The tiny model with Mamba2 layers: a GraniteMoeHybrid without experts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from harness.end_to_end.inside.tiny_model import HEAD, HIDDEN, LOUD, SHARED_CONFIG, WINDOW, Weights

HEADS = 16
HEAD_SIZE = HIDDEN // HEADS
STATES = 4
CHUNK_SIZE = 64


def write_mamba2_hybrid(folder: Path, layers: int, seed: int, attention_first: bool) -> None:
    """A checkpoint with so many Mamba2 layers and one layer of attention, behind the first or in front of all."""
    kinds = ["mamba"] * layers
    kinds.insert(0 if attention_first else 1, "attention")
    config: dict[str, Any] = SHARED_CONFIG | {
        "architectures": ["GraniteMoeHybridForCausalLM"],
        "model_type": "granitemoehybrid",
        "shared_intermediate_size": HIDDEN,
        "num_hidden_layers": len(kinds),
        "layer_types": kinds,
        "num_local_experts": 0,
        "num_experts_per_tok": 0,
        "mamba_n_heads": HEADS,
        "mamba_d_head": HEAD_SIZE,
        "mamba_n_groups": 1,
        "mamba_d_state": STATES,
        "mamba_d_conv": WINDOW,
        "mamba_expand": 1,
        "mamba_chunk_size": CHUNK_SIZE,
    }
    channels = HIDDEN + 2 * STATES
    weights = Weights(seed)
    for number, kind in enumerate(kinds):
        layer = f"model.layers.{number}"
        weights.all |= {
            f"{layer}.input_layernorm.weight": torch.ones(HIDDEN),
            f"{layer}.post_attention_layernorm.weight": torch.ones(HIDDEN),
            f"{layer}.shared_mlp.input_linear.weight": weights.matrix(2 * HIDDEN, HIDDEN),
            f"{layer}.shared_mlp.output_linear.weight": weights.matrix(HIDDEN, HIDDEN),
        }
        if kind == "attention":
            weights.all |= {
                f"{layer}.self_attn.q_proj.weight": weights.matrix(2 * HEAD, HIDDEN),
                f"{layer}.self_attn.k_proj.weight": weights.matrix(HEAD, HIDDEN),
                f"{layer}.self_attn.v_proj.weight": weights.matrix(HEAD, HIDDEN),
                f"{layer}.self_attn.o_proj.weight": weights.matrix(HIDDEN, 2 * HEAD, gain=LOUD),
            }
        else:
            weights.all |= {
                f"{layer}.mamba.dt_bias": weights.uniform(HEADS, low=-0.5, high=0.5),
                f"{layer}.mamba.A_log": torch.log(weights.uniform(HEADS, low=0.02, high=0.17)),
                f"{layer}.mamba.D": torch.full((HEADS,), 0.1),
                f"{layer}.mamba.conv1d.weight": weights.normal(channels, 1, WINDOW, scale=WINDOW**-0.5),
                f"{layer}.mamba.conv1d.bias": weights.normal(channels, scale=0.1),
                f"{layer}.mamba.in_proj.weight": weights.matrix(HIDDEN + channels + HEADS, HIDDEN),
                f"{layer}.mamba.norm.weight": torch.ones(HIDDEN),
                f"{layer}.mamba.out_proj.weight": weights.matrix(HIDDEN, HIDDEN, gain=LOUD),
            }
    weights.all["model.norm.weight"] = torch.ones(HIDDEN)
    weights.write(folder, config)

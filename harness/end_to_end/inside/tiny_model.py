"""The tiny model: random weights in which states matter, made when they are needed.

With ordinary random weights the next token follows from the last one, and a damaged state changes nothing. Small
embeddings, large output projections of the mixers and a slow decay make the states decide
(`sensitivity.py` tests it). Everything follows from a seed, in float32.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from harness.end_to_end.spelling import FIRST_TOKEN, VOCABULARY

STOP = 2
"""The token that ends a request, where a sequence says that the next one does."""

HIDDEN = 128
HEADS = 16
HEAD_SIZE = HIDDEN // HEADS
STATES = 4
WINDOW = 4
CHUNK = 64
POSITIONS = 4096


def write_mamba2_hybrid(folder: Path, mamba_layers: int, seed: int) -> None:
    """A checkpoint of a GraniteMoeHybrid with so many Mamba2 layers and one layer of attention, behind the first."""
    kinds = ["mamba", "attention", *["mamba"] * (mamba_layers - 1)]
    config: dict[str, Any] = {
        "architectures": ["GraniteMoeHybridForCausalLM"],
        "model_type": "granitemoehybrid",
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": HIDDEN,
        "shared_intermediate_size": HIDDEN,
        "num_hidden_layers": len(kinds),
        "layer_types": kinds,
        "num_attention_heads": 2,  # heads of 64: the CPU's attention takes few sizes
        "num_key_value_heads": 1,
        "num_local_experts": 0,
        "num_experts_per_tok": 0,
        "mamba_n_heads": HEADS,
        "mamba_d_head": HEAD_SIZE,
        "mamba_n_groups": 1,
        "mamba_d_state": STATES,
        "mamba_d_conv": WINDOW,
        "mamba_expand": 1,
        "mamba_chunk_size": CHUNK,
        "max_position_embeddings": POSITIONS,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int, scale: float) -> torch.Tensor:
        return torch.randn(shape, generator=generator) * scale

    def matrix(outputs: int, inputs: int, gain: float = 1.0) -> torch.Tensor:
        return normal(outputs, inputs, scale=gain * inputs**-0.5)

    channels = HIDDEN + 2 * STATES
    weights: dict[str, torch.Tensor] = {"model.embed_tokens.weight": normal(VOCABULARY, HIDDEN, scale=0.05)}
    for number, kind in enumerate(kinds):
        layer = f"model.layers.{number}"
        weights[f"{layer}.input_layernorm.weight"] = torch.ones(HIDDEN)
        weights[f"{layer}.post_attention_layernorm.weight"] = torch.ones(HIDDEN)
        weights[f"{layer}.shared_mlp.input_linear.weight"] = matrix(2 * HIDDEN, HIDDEN)
        weights[f"{layer}.shared_mlp.output_linear.weight"] = matrix(HIDDEN, HIDDEN)
        if kind == "attention":
            weights[f"{layer}.self_attn.q_proj.weight"] = matrix(HIDDEN, HIDDEN)
            weights[f"{layer}.self_attn.k_proj.weight"] = matrix(64, HIDDEN)
            weights[f"{layer}.self_attn.v_proj.weight"] = matrix(64, HIDDEN)
            weights[f"{layer}.self_attn.o_proj.weight"] = matrix(HIDDEN, HIDDEN, gain=4.0)
            continue
        weights[f"{layer}.mamba.dt_bias"] = torch.rand(HEADS, generator=generator) - 0.5
        weights[f"{layer}.mamba.A_log"] = torch.log(torch.rand(HEADS, generator=generator) * 0.15 + 0.02)
        weights[f"{layer}.mamba.D"] = torch.full((HEADS,), 0.1)
        weights[f"{layer}.mamba.conv1d.weight"] = normal(channels, 1, WINDOW, scale=WINDOW**-0.5)
        weights[f"{layer}.mamba.conv1d.bias"] = normal(channels, scale=0.1)
        weights[f"{layer}.mamba.in_proj.weight"] = matrix(HIDDEN + channels + HEADS, HIDDEN)
        weights[f"{layer}.mamba.norm.weight"] = torch.ones(HIDDEN)
        weights[f"{layer}.mamba.out_proj.weight"] = matrix(HIDDEN, HIDDEN, gain=4.0)
    weights["model.norm.weight"] = torch.ones(HIDDEN)
    weights["lm_head.weight"] = matrix(VOCABULARY, HIDDEN)
    weights["lm_head.weight"][:FIRST_TOKEN] = 0  # a logit of 0 is far below the best one
    _write(folder, config, weights)


def _write(folder: Path, config: dict[str, Any], weights: dict[str, torch.Tensor]) -> None:
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file({name: value.contiguous() for name, value in weights.items()}, folder / "model.safetensors")

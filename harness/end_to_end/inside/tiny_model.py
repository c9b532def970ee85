"""The tiny model: random weights in which states matter, made when they are needed.

With ordinary random weights the next token follows from the last one, and a damaged state changes nothing. Small
embeddings, large output projections of the mixers and a slow decay make the states decide
(`sensitivity.py` tests it). Everything follows from a seed, in float32. Here is what the kinds of models share.
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
WINDOW = 4
HEAD = 64
"""Size of a head of attention: the CPU's takes few sizes."""

POSITIONS = 4096
LOUD = 4.0
"""What the output projections of mixers are multiplied by."""


class Weights:
    """The weights of a checkpoint by name, drawn one after the other. Those around the layers are there at once."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self.all: dict[str, torch.Tensor] = {"model.embed_tokens.weight": self.normal(VOCABULARY, HIDDEN, scale=0.05)}

    def normal(self, *shape: int, scale: float) -> torch.Tensor:
        """Normally distributed, with a standard deviation of `scale`."""
        return torch.randn(shape, generator=self._generator) * scale

    def uniform(self, *shape: int, low: float, high: float) -> torch.Tensor:
        """Between two numbers."""
        return torch.rand(shape, generator=self._generator) * (high - low) + low

    def matrix(self, outputs: int, inputs: int, gain: float = 1.0) -> torch.Tensor:
        """A projection that leaves the size of its inputs as it is, times `gain`."""
        return self.normal(outputs, inputs, scale=gain * inputs**-0.5)

    def write(self, folder: Path, config: dict[str, Any]) -> None:
        """The checkpoint, with what is behind the layers."""
        from safetensors.torch import save_file

        self.all["lm_head.weight"] = self.matrix(VOCABULARY, HIDDEN)
        self.all["lm_head.weight"][:FIRST_TOKEN] = 0  # a logit of 0 is far below the best one
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        save_file({name: value.contiguous() for name, value in self.all.items()}, folder / "model.safetensors")


SHARED_CONFIG: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "intermediate_size": HIDDEN,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": POSITIONS,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
    "bos_token_id": 1,
    "eos_token_id": 2,
}

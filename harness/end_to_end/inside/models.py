"""The checkpoints of tiny models, one for each kind of layers and number of them."""

from __future__ import annotations

import hashlib
import importlib
import inspect
from pathlib import Path

from harness.end_to_end.inside import tiny_model
from harness.end_to_end.kinds import KINDS
from harness.end_to_end.messages import ModelKind


def checkpoint(models: Path, model: ModelKind, seed: int) -> Path:
    """The folder of a checkpoint, made if it is not there. Its name has a digest of what makes it, so that no older
    checkpoint is taken for it."""
    kind = KINDS[model.layers]
    module = importlib.import_module(f"harness.end_to_end.inside.{kind.model}")
    sources = inspect.getsource(module) + inspect.getsource(tiny_model)
    digest = hashlib.sha256(sources.encode()).hexdigest()[:12]
    order = "-attention-first" if model.attention_first else ""
    folder = models / f"{model.layers}-{model.count}{order}-{seed}-{digest}"
    if not (folder / "model.safetensors").exists():
        getattr(module, kind.write)(folder, model.count, seed, model.attention_first)
    return folder

"""Cache specs describe a model's key/value cache to the kernels' host code: groups of layers and their states.

Only what that host code reads is here. Production's own classes also plan memory for attention layers, which imports
most of vLLM. As in production, two specs are equal when all their fields are; groups are distinguished by that.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

import torch


@dataclass(frozen=True)
class KVCacheSpec:
    """The format of one layer's cache. `block_size` is in tokens."""

    block_size: int


@dataclass(frozen=True)
class AttentionSpec(KVCacheSpec):
    """An attention layer: the kernels must not touch it."""


@dataclass(frozen=True)
class FullAttentionSpec(AttentionSpec):
    """An attention layer without a window."""


@dataclass(frozen=True)
class MambaSpec(KVCacheSpec):
    """A recurrent layer: shape (of one block) and type of each state, in order."""

    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[torch.dtype, ...]
    page_size_padded: int | None = None
    mamba_type: Hashable = None
    mamba_cache_mode: str = "none"
    num_speculative_blocks: int = 0


@dataclass(frozen=True)
class UniformTypeKVCacheSpecs(KVCacheSpec):
    """The specs of a group whose layers differ, by layer name."""

    kv_cache_specs: Mapping[str, KVCacheSpec]

    @property
    def first_spec(self) -> KVCacheSpec:
        return next(iter(self.kv_cache_specs.values()))


@dataclass
class KVCacheGroupSpec:
    """Layers that share one block table."""

    layer_names: list[str]
    kv_cache_spec: KVCacheSpec


@dataclass
class KVCacheConfig:
    """The cache of a whole model."""

    num_blocks: int
    kv_cache_groups: list[KVCacheGroupSpec]
    kv_cache_tensors: list[object] = field(default_factory=list)

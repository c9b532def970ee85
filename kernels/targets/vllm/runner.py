"""A runner, here, is the objects that a model runner would hand to the kernels' host code for one layout.

Layer names, cache groups and specs, the forward context with each layer's tensors, and the copy functions. One
attention group stands among the Mamba groups, as in every hybrid model, so that group ids are not simply counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from harness.case import ConvState, Layer, Layout
from harness.kernels.targets.base import LayoutTensors
from harness.kernels.targets.vllm.specs import (
    AttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    MambaSpec,
    UniformTypeKVCacheSpecs,
)

Kinds = tuple[str, ...]
"""The kinds of a layer's states, in order: what its type amounts to here."""


@dataclass(frozen=True)
class Runner:
    """`layer_kinds` are the kinds of every layer, in the flattened order of groups and layers."""

    config: KVCacheConfig
    forward_context: Mapping[str, Any]
    layer_kinds: Sequence[Kinds]


def kinds(layer: Layer) -> Kinds:
    """`conv` or `temporal` for each state of a layer."""
    return tuple("conv" if isinstance(state, ConvState) else "temporal" for state in layer.states)


def runner(layout: Layout, tensors: LayoutTensors) -> Runner:
    """The objects for `layout` over `tensors`."""
    groups: list[KVCacheGroupSpec] = []
    forward_context: dict[str, Any] = {}
    layer_kinds: list[Kinds] = []
    for g, group in enumerate(layout.groups):
        specs: dict[str, MambaSpec] = {}
        for l, layer in enumerate(group.layers):  # noqa: E741 - l is the layer throughout
            name = f"group {g} layer {l}"
            states = tensors.states[g][l]
            specs[name] = MambaSpec(
                block_size=layout.block_size,
                shapes=tuple(tuple(state.shape[1:]) for state in states),
                dtypes=tuple(state.dtype for state in states),
                mamba_type=kinds(layer),
                mamba_cache_mode="align",
                num_speculative_blocks=layout.num_spec,
            )
            forward_context[name] = SimpleNamespace(kv_cache=list(states))
            layer_kinds.append(kinds(layer))
        first = next(iter(specs.values()))
        alike = all(spec == first for spec in specs.values())
        spec = first if alike else UniformTypeKVCacheSpecs(layout.block_size, specs)
        groups.append(KVCacheGroupSpec(list(specs), spec))
    attention = KVCacheGroupSpec(["attention"], AttentionSpec(layout.block_size))
    groups.insert(1 if len(groups) > 1 else 0, attention)
    return Runner(KVCacheConfig(layout.num_blocks, groups), forward_context, layer_kinds)


def mamba_specs(config: KVCacheConfig) -> list[MambaSpec]:
    """The specs of all Mamba layers."""
    found: list[MambaSpec] = []
    for group in config.kv_cache_groups:
        spec = group.kv_cache_spec
        parts = spec.kv_cache_specs.values() if isinstance(spec, UniformTypeKVCacheSpecs) else [spec]
        found.extend(part for part in parts if isinstance(part, MambaSpec))
    return found

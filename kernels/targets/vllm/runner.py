"""A runner here is the set of objects that a model runner would pass to the kernels' host code for one layout.

Layer names, cache groups and specs, the forward context with each layer's tensors, and the copy functions. There is
one attention group among the Mamba groups, as in every hybrid model, so that group ids are not consecutive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch

from harness.case import ConvState, Layer, Layout
from harness.kernels.targets.base import LayoutTensors
from harness.kernels.targets.vllm.bare import accepted

Kinds = tuple[str, ...]
"""The kinds of a layer's states, in order: this determines its type here."""


@dataclass(frozen=True)
class Runner:
    """`layer_kinds` and `specs` are those of every Mamba layer, in the flattened order of groups and layers;
    `mamba_groups` are the numbers of the groups that have Mamba layers."""

    config: Any
    forward_context: Mapping[str, Any]
    layer_kinds: Sequence[Kinds]
    specs: Sequence[Any]
    mamba_groups: Sequence[int]


def kinds(layer: Layer) -> Kinds:
    """`conv` or `temporal` for each state of a layer."""
    return tuple("conv" if isinstance(state, ConvState) else "temporal" for state in layer.states)


def runner(layout: Layout, tensors: LayoutTensors, interface: Any) -> Runner:
    """The objects for `layout` over `tensors`; `interface` has the classes of cache specs and configurations."""
    groups: list[Any] = []
    forward_context: dict[str, Any] = {}
    layer_kinds: list[Kinds] = []
    all_specs: list[Any] = []
    for g, group in enumerate(layout.groups):
        specs: dict[str, Any] = {}
        for l, layer in enumerate(group.layers):  # noqa: E741 - l is the layer throughout
            name = f"group {g} layer {l}"
            states = tensors.states[g][l]
            specs[name] = interface.MambaSpec(
                block_size=layout.block_size,
                shapes=tuple(tuple(state.shape[1:]) for state in states),
                dtypes=tuple(state.dtype for state in states),
                mamba_type=kinds(layer),
                mamba_cache_mode="align",
                num_speculative_blocks=layout.num_spec,
            )
            forward_context[name] = SimpleNamespace(kv_cache=list(states))
            layer_kinds.append(kinds(layer))
        all_specs += specs.values()
        first = next(iter(specs.values()))
        equal = all(spec == first for spec in specs.values())
        spec = first if equal else interface.UniformTypeKVCacheSpecs(block_size=layout.block_size, kv_cache_specs=specs)
        groups.append(interface.KVCacheGroupSpec(list(specs), spec))
    place = 1 if len(groups) > 1 else 0
    groups.insert(place, interface.KVCacheGroupSpec(["attention"], _attention(layout, interface)))
    config = interface.KVCacheConfig(num_blocks=layout.num_blocks, kv_cache_tensors=[], kv_cache_groups=groups)
    mamba_groups = [number for number in range(len(groups)) if number != place]
    return Runner(config, forward_context, layer_kinds, all_specs, mamba_groups)


def _attention(layout: Layout, interface: Any) -> Any:
    """An attention layer; the stubs know only its block size."""
    offered = {"num_kv_heads": 1, "head_size": 8, "dtype": torch.bfloat16, "use_mla": False}
    kind = interface.FullAttentionSpec
    return kind(block_size=layout.block_size, **accepted(kind, offered))

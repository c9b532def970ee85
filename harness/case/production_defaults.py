"""Production's defaults are the options that a user of one release has who sets nothing.

They are data: what a release answers when it is asked (kernels/targets/vllm/scheduling/production.py). Block size,
token budget, number of blocks, lengths, number of requests and vocabulary are sizes, which follow from a model, a GPU
and a load; they count as default, and so does speculative decoding itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from harness.case.operations import Runner
from harness.case.sequence import Layers, Pause, Policy, SequenceCase, SequenceConfig

GRID: Literal["grid"] = "grid"
"""An alignment of checkpoints: positions at which prefixes may be cached."""

Alignment = int | Literal["grid"] | None
"""Of the checkpoints that a layer exports inside a prefill, in tokens; None: it exports none."""


OPTIONS = {
    "retention": "prefix_cache_retention_interval",
    "match_unit": "prefix_match_unit",
    "shared_prefix_checkpoint": "enable_mamba_shared_prefix_checkpoint",
    "policy": "scheduling policy",
    "prefill_threshold": "long_prefill_token_threshold",
}
"""Options of a configuration, and vLLM's names for them."""


class DeclaredLayers(msgspec.Struct, frozen=True):
    """A kind of layers that models of a release have, and what it declares. `caches_by_default`: states are cached at
    block boundaries (`align` mode) if nothing is set."""

    layers: Layers
    checkpoints: Alignment
    caches_by_default: bool = True

    def alignment_for(self, match_unit: int | None, block_size: int) -> int | None:
        """Of their checkpoints in an engine: tokens."""
        return (match_unit or block_size) if self.checkpoints == GRID else self.checkpoints

    def fits(self, config: SequenceConfig) -> bool:
        """Whether an engine can have these layers: blocks are multiples of the alignment."""
        return config.block_size % (self.alignment_for(config.match_unit, config.block_size) or 1) == 0


class ProductionDefaults(msgspec.Struct, frozen=True):
    """`runners` has the default runner for each drafting method, `methods` the drafting methods that each runner takes,
    and `asynchronous` those for which its scheduling is asynchronous by default.
    `retention` None: the release has no such option, and keeps all states. `streams` says whether sessions of streaming
    input are drawn: the release keeps a session's tokens where a turn stops among accepted drafts."""

    retention: int | None
    match_unit: int | None
    shared_prefix_checkpoint: bool
    policy: Policy
    prefill_threshold: int
    runners: dict[str, Runner]
    methods: dict[str, list[str]]
    asynchronous: dict[str, list[str]]
    layers: tuple[DeclaredLayers, ...]
    streams: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """The options that a configuration has under the same name, with their defaults."""
        return {name: getattr(self, name) for name in OPTIONS}

    def runner(self, config: SequenceConfig) -> Runner:
        """The default runner of a hybrid model with this drafting method."""
        return self.runners[config.spec_method]

    def is_asynchronous(self, config: SequenceConfig) -> bool:
        """Whether scheduling is asynchronous by default, on the runner that the engine has."""
        return config.spec_method in self.asynchronous[config.runner]

    def declared(self, config: SequenceConfig) -> DeclaredLayers | None:
        """The layers of the release that an engine has; None if no layer declares such checkpoints."""
        return next((one for one in self.layers if _is(one, config)), None)


def _is(one: DeclaredLayers, config: SequenceConfig) -> bool:
    # A file without layers is older than the option: its V1 rows run as those of Mamba2.
    kinds = {config.layers} if config.layers is not None else {"mamba2"} if config.runner == "V1" else {one.layers}
    alignment = one.alignment_for(config.match_unit, config.block_size)
    return one.layers in kinds and one.fits(config) and alignment == config.checkpoint_alignment


def deviations(case: SequenceCase, defaults: ProductionDefaults) -> tuple[str, ...]:
    """The settings of a case that differ from production's defaults, in words; none: it happens at default options."""
    config = case.config
    runner, asynchronous = defaults.runner(config), defaults.is_asynchronous(config)
    found = []
    if config.runner != runner:
        found.append(f"the {config.runner} runner (default {runner})")
    if config.spec_method not in defaults.methods[config.runner]:
        found.append(f"{config.spec_method} on the {config.runner} runner, which the release refuses")
    if config.asynchronous != asynchronous:
        words = {True: "asynchronous", False: "synchronous"}
        found.append(f"{words[config.asynchronous]} scheduling (default {words[asynchronous]})")
    for name, default in defaults.options.items():
        value = getattr(config, name)
        if value != default:
            found.append(f"{OPTIONS[name]} {value} (default {default})")
    if config.drafter_block_size not in (None, config.block_size):
        found.append(
            f"blocks of {config.drafter_block_size} tokens for the drafter ({config.block_size} for the model)"
        )
    declared = defaults.declared(config)
    if declared is None:
        found.append(f"{_checkpoints(config)}, which no layer of this kind declares")
    elif not declared.caches_by_default:
        found.append(f"mamba_cache_mode align with prefix caching (not the default for {declared.layers})")
    if any(_keeps_caches(event) for event in case.events):
        found.append("a pause that keeps the caches (clear_cache=False)")
    return tuple(found)


def settings_in_words(case: SequenceCase, settings: Sequence[str]) -> str:
    """The options that a finding needs, given those of its settings that differ from production's defaults."""
    config = case.config
    if settings:
        return f"needs {'; '.join(settings)}"
    drafts = f", with speculative decoding ({config.spec_method}, {config.num_spec})" if config.num_spec else ""
    return f"at default options{drafts}"


def _checkpoints(config: SequenceConfig) -> str:
    if config.checkpoint_alignment is None:
        return "no checkpoints inside a prefill"
    return f"checkpoints inside a prefill at multiples of {config.checkpoint_alignment} tokens"


def _keeps_caches(event: object) -> bool:
    return isinstance(event, Pause) and not event.clears

"""A variation is a sequence with other settings nearby: another drafting method, or production's defaults.

The same events take other ways through another release: a method that drops the last block of a hit reaches other hits
than one that does not. So a release that does not fail in one form of a finding may have its issue all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import msgspec

from harness.case import InvalidCase
from harness.case.production_defaults import DeclaredLayers, ProductionDefaults, deviations
from harness.case.sequence import SequenceCase, SequenceConfig, SpecMethod

_OF_ITS_OWN = ("none", "ngram")
"""Methods whose drafter has no cache."""


def variations(case: SequenceCase, defaults: ProductionDefaults) -> list[tuple[str, SequenceCase]]:
    """What was changed in words, and the changed case; fewest settings that differ from the defaults first."""
    found: dict[SequenceConfig, SequenceCase] = {}
    for config in _nearby(case.config, defaults):
        if config == case.config or config in found:
            continue
        try:
            found[config] = SequenceCase(config=_checked(config), events=case.events)
        except InvalidCase:
            continue  # these settings contradict each other
    ordered = sorted(found.values(), key=lambda one: len(deviations(one, defaults)))
    return [(_in_words(case.config, one.config), one) for one in ordered]


def _nearby(config: SequenceConfig, defaults: ProductionDefaults) -> Iterator[SequenceConfig]:
    change = msgspec.structs.replace
    for base in (config, *_at_defaults(config, defaults)):
        yield base
        for method in _methods(base, defaults):
            yield _with_method(base, method, defaults)
            for count in (base.num_spec - 1, base.num_spec + 1):
                if base is config and 0 < count < base.block_size:
                    yield change(_with_method(base, method, defaults), num_spec=count)
    other = defaults.runner(config)
    if other != config.runner:
        yield change(config, runner=other)


def _at_defaults(config: SequenceConfig, defaults: ProductionDefaults) -> Iterator[SequenceConfig]:
    """With all options at their defaults, for each kind of layers that fits."""
    runner = defaults.runner(config)
    plain = msgspec.structs.replace(
        config,
        runner=runner,
        retention=defaults.retention,
        match_unit=defaults.match_unit,
        shared_prefix_checkpoint=defaults.shared_prefix_checkpoint,
        policy=defaults.policy,
        prefill_threshold=defaults.prefill_threshold,
        drafter_block_size=None,
    )
    for one in defaults.layers:
        if one.fits(plain):
            yield _with_layers(plain, one, defaults)


def _with_layers(config: SequenceConfig, one: DeclaredLayers, defaults: ProductionDefaults) -> SequenceConfig:
    alignment = one.alignment_for(config.match_unit, config.block_size)
    config = msgspec.structs.replace(config, layers=one.layers, checkpoint_alignment=alignment)
    return msgspec.structs.replace(config, asynchronous=defaults.is_asynchronous(config))


def _methods(config: SequenceConfig, defaults: ProductionDefaults) -> Iterator[SpecMethod]:
    if config.num_spec:
        yield from (method for method in get_args(SpecMethod) if method != "none")


def _with_method(config: SequenceConfig, method: SpecMethod, defaults: ProductionDefaults) -> SequenceConfig:
    """Another drafting method, on the runner and with the scheduling that it has."""
    changes: dict[str, Any] = {"spec_method": method}
    if method in _OF_ITS_OWN:
        changes["drafter_block_size"] = None
    if method not in defaults.methods[config.runner]:
        changes["runner"] = defaults.runners[method]
    config = msgspec.structs.replace(config, **changes)
    if config.asynchronous and not defaults.is_asynchronous(config):
        config = msgspec.structs.replace(config, asynchronous=False)
    return config


def _checked(config: SequenceConfig) -> SequenceConfig:
    """The same configuration, with a pool that is large enough. Raises InvalidCase."""
    fields = msgspec.structs.asdict(config)
    roomy = SequenceConfig(**{**fields, "num_blocks": 4096})
    return SequenceConfig(**{**fields, "num_blocks": max(config.num_blocks, roomy.blocks_for_one())})


def _in_words(old: SequenceConfig, new: SequenceConfig) -> str:
    return ", ".join(
        f"{name} {getattr(new, name)}"
        for name in SequenceConfig.__struct_fields__
        if getattr(new, name) != getattr(old, name)
    )

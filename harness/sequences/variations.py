"""A variation is a sequence with other settings nearby: another drafting method, or production's defaults.

The same events take other ways through another release: a method that drops the last block of a hit reaches other hits
than one that does not. So a release that does not fail in one form of a finding may have its issue all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import msgspec

from harness.case import InvalidCase
from harness.case.operations import Runner
from harness.case.production_defaults import ProductionDefaults, deviations
from harness.case.sequence import SequenceCase, SequenceConfig, SpecMethod

_OF_ITS_OWN = ("none", "ngram")
"""Methods whose drafter has no cache."""


def variations(case: SequenceCase, defaults: ProductionDefaults) -> list[tuple[str, SequenceCase]]:
    """What was changed in words, and the changed case; fewest settings that differ from the defaults first."""
    found: dict[SequenceConfig, SequenceCase] = {}
    for changes in _nearby(case.config, defaults):
        try:
            config = _changed(case.config, changes)
            if config != case.config and config not in found:
                found[config] = SequenceCase(config=config, events=case.events)
        except InvalidCase:
            continue  # these settings contradict each other
    ordered = sorted(found.values(), key=lambda one: len(deviations(one, defaults)))
    return [(_in_words(case.config, one.config), one) for one in ordered]


Changes = dict[str, Any]


def _nearby(config: SequenceConfig, defaults: ProductionDefaults) -> Iterator[Changes]:
    for base in ({}, *_at_defaults(config, defaults)):
        yield base
        runner = base.get("runner", config.runner)
        for method in _methods(config):
            changes = {**base, **_with_method(method, runner, base.get("asynchronous", config.asynchronous), defaults)}
            yield changes
            for count in (config.num_spec - 1, config.num_spec + 1):
                if not base and 0 < count < config.block_size:
                    yield {**changes, "num_spec": count}
    yield {"runner": defaults.runner(config)}


def _at_defaults(config: SequenceConfig, defaults: ProductionDefaults) -> Iterator[Changes]:
    """All options at their defaults, for each kind of layers that fits."""
    runner = defaults.runner(config)
    for one in defaults.layers:
        alignment = one.alignment_for(defaults.match_unit, config.block_size)
        if config.block_size % (alignment or 1) == 0:
            yield {
                "runner": runner,
                "asynchronous": config.spec_method in defaults.asynchronous[runner],
                **defaults.options,
                "drafter_block_size": None,
                "layers": one.layers,
                "checkpoint_alignment": alignment,
            }


def _methods(config: SequenceConfig) -> Iterator[SpecMethod]:
    if config.num_spec:
        yield from (method for method in get_args(SpecMethod) if method != "none")


def _with_method(method: SpecMethod, runner: Runner, asynchronous: bool, defaults: ProductionDefaults) -> Changes:
    """Another drafting method, on a runner that takes it and with scheduling that it allows."""
    changes: Changes = {"spec_method": method}
    if method in _OF_ITS_OWN:
        changes["drafter_block_size"] = None
    if method not in defaults.methods[runner]:
        changes["runner"] = runner = defaults.runners[method]
    if asynchronous and method not in defaults.asynchronous[runner]:
        changes["asynchronous"] = False
    return changes


def _changed(config: SequenceConfig, changes: Changes) -> SequenceConfig:
    """The changed configuration, with a pool that is large enough. Raises InvalidCase."""
    fields = {**msgspec.structs.asdict(config), **changes}
    roomy = SequenceConfig(**{**fields, "num_blocks": 4096})
    return SequenceConfig(**{**fields, "num_blocks": max(config.num_blocks, roomy.blocks_for_one())})


def _in_words(old: SequenceConfig, new: SequenceConfig) -> str:
    return ", ".join(
        f"{name} {getattr(new, name)}"
        for name in SequenceConfig.__struct_fields__
        if getattr(new, name) != getattr(old, name)
    )

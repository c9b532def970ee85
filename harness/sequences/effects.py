"""An effect is what a fix changes in the loaded release; a fix without one is named, so that it is not mistaken for the
cause.

Whether a fix has an effect shows only on an engine and its rules: some replace a function if a release has it, others
change a rule that a release may have already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.case.sequence import SequenceConfig
from harness.kernels.targets.vllm.scheduling.engine import Engine, ReleaseLacks
from harness.sequences.controls import Controls
from harness.sequences.lost import lost_attribute, lost_fixes
from harness.sequences.recipe import SequenceRecipe, sequence_at
from harness.sequences.runner_models import release_rules

CONFIGURATIONS = 32
"""Drawn configurations, tried in turn: they have every option that a fix depends on."""


def without_effect(fixes: Sequence[str]) -> list[str]:
    """Those of `fixes` that change nothing in the loaded release, in any configuration."""
    lost = lost_fixes()
    idle = [name for name in fixes if name in lost]
    left = [name for name in fixes if name not in lost]
    for index in range(CONFIGURATIONS):
        config = sequence_at(SequenceRecipe(0), index).config
        left = [name for name in left if not _changes(name, config)]
        if not left:
            break
    return [name for name in fixes if name in {*idle, *left}]


def _changes(name: str, config: SequenceConfig) -> bool:
    try:
        engine = Engine(config)
        rules = release_rules(config.runner)
    except ReleaseLacks:
        return False
    controls = Controls(fixes=(name,))
    if controls.rules(rules) != rules:
        return True
    changed: list[Any] = [engine, engine.scheduler, engine.manager.coordinator]
    changed += engine.manager.coordinator.single_type_managers
    before = [dict(vars(one)) for one in changed]
    try:
        controls.change_engine(engine)
    except AttributeError as error:
        if lost_attribute(error) is None:
            raise
        return False  # a sequence that needs the fix says what is lost
    # A function is replaced by an attribute of the object.
    return any(_differ(old, vars(one)) for old, one in zip(before, changed, strict=True))


def _differ(old: dict[str, Any], new: dict[str, Any]) -> bool:
    return old.keys() != new.keys() or any(new[key] is not value for key, value in old.items())

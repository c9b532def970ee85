"""A change is what a fix or a planted fault does to one engine and to the rules of its runner.

A fix removes one issue, and does nothing else: some fixes are the rule of a later release, others the minimum that
makes the issue go away. A release without the function that a change replaces does not have the issue either, and stays
as it is. Models of runners do not know about changes: they get rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from harness.kernels.targets.vllm.scheduling.rules import RunnerRules


class Change(NamedTuple):
    """`rules` returns the rules of a runner, made from those of its release; `engine` replaces functions of an engine
    (kernels/targets/vllm/scheduling/engine.py) before its first step."""

    rules: Callable[[RunnerRules], RunnerRules] = lambda rules: rules
    engine: Callable[[Any], None] = lambda engine: None

"""A change is what a fix, or a planted fault, does to one engine and to the rules of its runner.

A fix takes one issue out, and does nothing else: some are the rule of a later release, others the least that makes the
issue go away. Where a release has not the function that a change replaces, it has not the issue either, and stays as it
is. Models of runners know nothing of changes: they are given rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from harness.kernels.targets.vllm.scheduling.rules import RunnerRules


class Change(NamedTuple):
    """`rules` gives the rules of a runner instead of those of its release; `engine` replaces functions of an engine
    (kernels/targets/vllm/scheduling/engine.py), before its first step."""

    rules: Callable[[RunnerRules], RunnerRules] = lambda rules: rules
    engine: Callable[[Any], None] = lambda engine: None

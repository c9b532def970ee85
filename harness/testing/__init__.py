"""Conformance checks: requirements for an executor or a target from another package, for the tests of that package.

Each check runs its own worker processes and raises NotConforming, an AssertionError of one line, at the first
violation; the harness's own executors and targets go through the same checks.
"""

from __future__ import annotations

from harness.testing.conformance import NotConforming
from harness.testing.executors import Judgement, executor_agrees
from harness.testing.targets import Answer, target_conforms

__all__ = ["Answer", "Judgement", "NotConforming", "executor_agrees", "target_conforms"]

"""The V2 pair: the V2 runner's host code next to our model of it (runner_pair.py).

The words of a row that layers of Mamba2 and gated delta nets read are compared one by one: the plan has only what
follows from both.
"""

from __future__ import annotations

from typing import Any

from harness.case.step_plan import StepPlan
from harness.kernels.targets.vllm.scheduling.engine import Engine
from harness.kernels.targets.vllm.scheduling.host_code_v2 import HostCodeV2
from harness.kernels.targets.vllm.scheduling.rules import RunnerRules
from harness.kernels.targets.vllm.scheduling.runner_model import StepTiming
from harness.kernels.targets.vllm.scheduling.runner_model_v2 import RunnerModelV2
from harness.kernels.targets.vllm.scheduling.runner_pair import RunnerPair


class RunnerPairV2(RunnerPair[RunnerModelV2, HostCodeV2]):
    """See module docstring. The host code may have other rules than the model: its own words, and changes of them."""

    has_slots = True

    def __init__(self, engine: Engine, rules: RunnerRules, own: RunnerRules) -> None:
        super().__init__(RunnerModelV2(engine, rules), HostCodeV2(engine, own))

    def begin(self, output: Any, timing: StepTiming) -> StepPlan:
        """From the scheduler's output to what the device runs."""
        plan = super().begin(output, timing)
        for row, found, wanted in zip(plan.rows, self.host.words, self.model.words, strict=True):
            if found is not None:
                self._same("prefilling", row.request, found.prefilling, wanted.prefilling)
                self._same("drafts of gated delta nets", row.request, found.drafts, wanted.drafts)
        return plan

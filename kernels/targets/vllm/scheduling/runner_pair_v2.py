"""The V2 pair: the V2 runner's host code next to our model of it (runner_pair.py)."""

from __future__ import annotations

from harness.kernels.targets.vllm.scheduling.engine import Engine
from harness.kernels.targets.vllm.scheduling.host_code_v2 import HostCodeV2
from harness.kernels.targets.vllm.scheduling.rules import RunnerRules
from harness.kernels.targets.vllm.scheduling.runner_model_v2 import RunnerModelV2
from harness.kernels.targets.vllm.scheduling.runner_pair import RunnerPair


class RunnerPairV2(RunnerPair[RunnerModelV2, HostCodeV2]):
    """See module docstring."""

    has_slots = True

    def __init__(self, engine: Engine, rules: RunnerRules) -> None:
        super().__init__(RunnerModelV2(engine, rules), HostCodeV2(engine, rules))

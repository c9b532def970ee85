"""Runner models by configuration: our model of a runner alone, or paired with the release's host code."""

from __future__ import annotations

from typing import NamedTuple

from harness.case.operations import Runner
from harness.kernels.targets.vllm.scheduling.engine import Engine
from harness.kernels.targets.vllm.scheduling.rules import RunnerRules
from harness.kernels.targets.vllm.scheduling.rules_v1 import rules_v1
from harness.kernels.targets.vllm.scheduling.rules_v2 import rules_v2
from harness.kernels.targets.vllm.scheduling.runner_model import RunnerModel
from harness.kernels.targets.vllm.scheduling.runner_model_v1 import RunnerModelV1
from harness.kernels.targets.vllm.scheduling.runner_model_v2 import RunnerModelV2
from harness.kernels.targets.vllm.scheduling.runner_pair_v1 import RunnerPairV1
from harness.kernels.targets.vllm.scheduling.runner_pair_v2 import RunnerPairV2
from harness.kernels.targets.vllm.scheduling.runner_without_model_v1 import v1_host_code_refusal
from harness.kernels.targets.vllm.scheduling.runner_without_model_v2 import host_code_refusal


class Made(NamedTuple):
    """`paired`: the release's host code runs as well. `refusal` is why it does not although that was requested."""

    model: RunnerModel
    paired: bool
    refusal: str | None = None


def release_rules(runner: Runner) -> RunnerRules:
    """The rules of a runner in the loaded release. Raises UnknownTarget if it has no such runner."""
    return rules_v1() if runner == "V1" else rules_v2()


def make_runner_model(engine: Engine, rules: RunnerRules, host_code: bool) -> Made:
    """The model for an engine; with `host_code`, paired if the loaded release's code can be driven."""
    first = engine.config.runner == "V1"
    refusal = None
    if host_code:
        refusal = v1_host_code_refusal() if first else host_code_refusal()
        if refusal is None:
            return Made(RunnerPairV1(engine, rules) if first else RunnerPairV2(engine, rules), True)
    return Made(RunnerModelV1(engine, rules) if first else RunnerModelV2(engine, rules), False, refusal)

"""Runner models by configuration: our model of a runner alone, or paired with the release's host code."""

from __future__ import annotations

from typing import NamedTuple

from harness.case.operations import Runner
from harness.kernels.targets.vllm.scheduling.engine import Engine
from harness.kernels.targets.vllm.scheduling.loading import base_source, has_base, own_source
from harness.kernels.targets.vllm.scheduling.recognised import changed_in, words_about
from harness.kernels.targets.vllm.scheduling.rules import RunnerRules
from harness.kernels.targets.vllm.scheduling.rules_v1 import RULES as RULES_V1
from harness.kernels.targets.vllm.scheduling.rules_v1 import own_rules_v1, rules_v1
from harness.kernels.targets.vllm.scheduling.rules_v2 import RULES as RULES_V2
from harness.kernels.targets.vllm.scheduling.rules_v2 import own_rules_v2, rules_v2
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
    """The rules of a runner in the loaded release, or in the base release of what is loaded. Raises UnknownTarget if it
    has no such runner."""
    return rules_v1() if runner == "V1" else rules_v2()


def own_rules(runner: Runner) -> RunnerRules:
    """The rules that the loaded code has by its own words, which an edit may have changed. Raises UnknownTarget."""
    return own_rules_v1() if runner == "V1" else own_rules_v2()


def changed_rules() -> list[str]:
    """A line for each rule of which an edit changed the words; none for a release."""
    if not has_base():
        return []
    own, base = own_source(), base_source()
    return [
        line for rules in (RULES_V1, RULES_V2) for line in words_about(changed_in(own, base, rules), rules, base.origin)
    ]


def make_runner_model(engine: Engine, rules: RunnerRules, own: RunnerRules, host_code: bool) -> Made:
    """The model for an engine; with `host_code`, paired if the loaded release's code can be driven, which has the rules
    `own`."""
    first = engine.config.runner == "V1"
    refusal = None
    if host_code:
        refusal = v1_host_code_refusal() if first else host_code_refusal()
        if refusal is None:
            return Made(RunnerPairV1(engine, rules, own) if first else RunnerPairV2(engine, rules, own), True)
    return Made(RunnerModelV1(engine, rules) if first else RunnerModelV2(engine, rules), False, refusal)

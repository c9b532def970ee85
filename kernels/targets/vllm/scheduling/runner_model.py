"""A runner model translates a scheduler's output to what the device runs, and back: step sequences drive it.

There is our model of each runner, a release's own host code on a runner without a model, and pairs of both that are
compared step by step. All get rules (rules.py) when they are created.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from harness.case.step_plan import PostprocessInput, StepPlan
from harness.kernels.targets.vllm.scheduling.rules import RunnerRules

Outcome = dict[str, tuple[int, list[int]]]
"""By request: how many tokens the sampler accepted, and which tokens these are."""


class StepTiming(NamedTuple):
    """What else has happened at the beginning of a step.

    `counts_landed`: the copy of the last step's accepted counts to the host has ended before the host updates its batch
    for this step. A synchronous engine waits for it; in an asynchronous one it may end later. `all_delivered`: the
    scheduler has the outputs of all earlier steps.
    """

    counts_landed: bool = True
    all_delivered: bool = False


class RunnerModel(Protocol):
    """See module docstring. Each step is `begin`, then `end` and `finish_step` if it has rows."""

    rules: RunnerRules

    @property
    def fuses(self) -> bool:
        """Whether states move by a kernel that decides itself, and not by a list of copies made on the host."""

    def begin(self, output: Any, timing: StepTiming) -> StepPlan:
        """From the scheduler's output to what the device runs."""

    def as_layers_run(self, plan: StepPlan) -> None:
        """Change the rows that layers run in another way than the runner plans."""

    def end(self, outcome: Outcome) -> list[PostprocessInput]:
        """Take what the sampler accepted; returns the input of the postprocess kernel."""

    def finish_step(self, outcome: Outcome, counts: dict[str, int]) -> None:
        """Keep the accepted counts that postprocess left, by request."""

    def has_drafts_of(self, name: str) -> bool:
        """Whether the device has drafts of a request for its next step."""

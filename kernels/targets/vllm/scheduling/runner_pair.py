"""A pair runs a release's host code and our model of it on the same inputs, and compares them step by step.

The device runs the host code's plan. Where the model differs, one of the two is wrong: the model, on which faster runs
rely, or the host code. A difference has vLLM's name of the value, its row and the value on both sides.
"""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

from harness.case.step_plan import PlannedRow, PostprocessInput, StepPlan
from harness.kernels.targets.vllm.scheduling.runner_model import Outcome, RunnerModel, StepTiming
from harness.kernels.targets.vllm.scheduling.terms import term_of
from harness.refusal import UnknownTarget

Model = TypeVar("Model", bound=RunnerModel)
Host = TypeVar("Host", bound=RunnerModel)


class HostCodeLacks(UnknownTarget):
    """The host code of a release needs something that our stubs do not provide; the message names it."""


class HostDifference(NamedTuple):
    """A value on which host code and model disagree in `step`.

    `what` is our name of the value, `term` vLLM's with its row; `request` is the request it belongs to, or "the batch".
    `host` and `model` are the two values.
    """

    step: int
    request: str
    what: str
    term: str
    host: str
    model: str


class HostCodeDiffers(Exception):
    """Ends a sequence: from now on the states of the two differ."""

    def __init__(self, difference: HostDifference) -> None:
        super().__init__(f"{difference.what} of {difference.request}")
        self.difference = difference


class RunnerPair(Generic[Model, Host]):
    """A runner model made of two. `begin`, `end` and `finish_step` raise HostCodeDiffers."""

    has_slots = False
    """Whether requests have slots in addition to their rows in the batch."""

    def __init__(self, model: Model, host: Host) -> None:
        self.model, self.host = model, host
        self.rules, self.fuses = host.rules, host.fuses
        self._step = 0
        self._rows: list[PlannedRow] = []

    def begin(self, output: Any, timing: StepTiming) -> StepPlan:
        """From the scheduler's output to what the device runs."""
        self._step += 1
        wanted = self.model.begin(output, timing)
        plan = self.host.begin(output, timing)
        self._rows = plan.rows
        for name in ("zeroed", "copies"):
            self._same(name, "the batch", getattr(plan, name), getattr(wanted, name))
        self._compare("forward pass", plan.rows, wanted.rows)
        self._compare("advance", plan.starts, wanted.starts)
        self._compare("precopy", plan.precopy, wanted.precopy)
        return plan

    def as_layers_run(self, plan: StepPlan) -> None:
        """As the model does: the layers got the same inputs."""
        self.model.as_layers_run(plan)

    def end(self, outcome: Outcome) -> list[PostprocessInput]:
        """Take what the sampler accepted; returns the input of the postprocess kernel."""
        wanted = self.model.end(outcome)
        inputs = self.host.end(outcome)
        self._compare("postprocess", inputs, wanted)
        return inputs

    def finish_step(self, outcome: Outcome, counts: dict[str, int]) -> None:
        """Keep the accepted counts that postprocess left."""
        self.model.finish_step(outcome, counts)
        self.host.finish_step(outcome, counts)

    def has_drafts_of(self, name: str) -> bool:
        """Whether the device has drafts of a request for its next step."""
        wanted, found = self.model.has_drafts_of(name), self.host.has_drafts_of(name)
        self._same("drafts", name, found, wanted)
        return found

    def _compare(self, how: str, found: list[Any], wanted: list[Any]) -> None:
        """Compare the rows of one launch; the first field that differs is the evidence."""
        if found == wanted:
            return
        for i, (row, other) in enumerate(zip(found, wanted, strict=False)):
            for name, held, should in zip(row._fields, row, other, strict=True):
                request = other.request if hasattr(other, "request") else self._rows[i].request
                self._same(f"{how}: {name}", request, held, should)
        self._same(f"{how}: rows", "the batch", len(found), len(wanted))

    def _same(self, what: str, request: str, held: Any, should: Any) -> None:
        if held != should:
            self._fail(what, request, held, should)

    def _fail(self, what: str, request: str, held: Any, should: Any) -> NoReturn:
        term = term_of(what) + self._place_of(request)
        raise HostCodeDiffers(HostDifference(self._step, request, what, term, str(held), str(should)))

    def _place_of(self, request: str) -> str:
        """The row of a request in the host code's batch, if it has one."""
        for i, row in enumerate(self._rows):
            if row.request == request:
                return f" of row {i}, slot {row.slot}" if self.has_slots else f" of row {i}"
        return ""

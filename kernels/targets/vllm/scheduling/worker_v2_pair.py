"""A pair is both V2 workers on one stream: the release's host code, and our model of it, compared step by step.

The device runs what the host code says. Where the model says anything else, that is a violation: a mistake of the
model, on which faster runs rest, or one of the host code. Evidence names the row and both values.
"""

from __future__ import annotations

from typing import Any

from harness.kernels.targets.vllm.scheduling.engine import Engine
from harness.kernels.targets.vllm.scheduling.worker_v2 import WorkerV2
from harness.kernels.targets.vllm.scheduling.worker_v2_host import HostWorkerV2
from harness.oracles.meaning.device import NOBODY
from harness.oracles.meaning.plan import PostprocessInput, StepPlan
from harness.oracles.meaning.violation import Violation, ViolationFound

DIFFERS = "host-code-differs"
"""The kind of violation that a disagreement is."""


def _of_both(name: str) -> Any:
    """A switch that either worker has, set for both."""

    def get(pair: PairedWorkerV2) -> Any:
        return getattr(pair.host, name)

    def put(pair: PairedWorkerV2, value: Any) -> None:
        setattr(pair.host, name, value)
        setattr(pair.model, name, value)

    return property(get, put)


class PairedWorkerV2:
    """See module docstring. `begin`, `end` and `settle` as for the V1 worker; raises ViolationFound."""

    def __init__(self, engine: Engine) -> None:
        self.counts_land_early = self.fuses = True
        self.model, self.host = WorkerV2(engine), HostWorkerV2(engine)
        self.model.checkpoints = self.checkpoints = self.host.checkpoints
        self._step = 0

    fault = _of_both("fault")
    pads_fresh_rows = _of_both("pads_fresh_rows")
    runs_one_token_as_decode = _of_both("runs_one_token_as_decode")
    runs_zero_drafts_as_decodes = _of_both("runs_zero_drafts_as_decodes")
    seeds_mamba_columns = _of_both("seeds_mamba_columns")

    def begin(self, output: Any) -> StepPlan:
        """From the scheduler's output to what the device runs."""
        self._step += 1
        wanted, plan = self.model.begin(output), self.host.begin(output)
        for name in ("zeroed", "copies"):
            if getattr(plan, name) != getattr(wanted, name):
                self._fail(name, "the batch", getattr(plan, name), getattr(wanted, name))
        self._compare("forward pass", plan.rows, wanted.rows)
        self._compare("advance", plan.starts, wanted.starts)
        self._compare("precopy", plan.precopy, wanted.precopy)
        return plan

    def end(self, outcome: dict[str, tuple[int, list[int]]]) -> list[PostprocessInput]:
        """Take what the sampler accepted; what the postprocess kernel gets."""
        wanted, inputs = self.model.end(outcome), self.host.end(outcome)
        self._compare("postprocess", inputs, wanted)
        return inputs

    def settle(self, outcome: dict[str, tuple[int, list[int]]], counts: dict[str, int]) -> None:
        """Keep the accepted counts that postprocess left."""
        self.model.settle(outcome, counts)
        self.host.settle(outcome, counts)

    def forget_optimism(self) -> None:
        """Nothing: see either worker."""

    def has_drafts_of(self, name: str) -> bool:
        """Whether the device has drafts of a request for its next step."""
        wanted, found = self.model.has_drafts_of(name), self.host.has_drafts_of(name)
        if found != wanted:
            self._fail("drafts", name, found, wanted)
        return found

    def _compare(self, how: str, found: list[Any], wanted: list[Any]) -> None:
        """Rows of one launch; the first field that differs is the evidence."""
        if found == wanted:
            return
        for row, other in zip(found, wanted, strict=False):
            for name, held, should in zip(row._fields, row, other, strict=True):
                if held != should:
                    request = getattr(other, "request", f"slot {other.slot}")
                    self._fail(f"{how}: {name}", request, held, should)
        self._fail(f"{how}: rows", "the batch", len(found), len(wanted))

    def _fail(self, what: str, request: str, held: Any, should: Any) -> None:
        said, wanted = f"the host code says {held}", f"{should}, says the model"
        raise ViolationFound(Violation(DIFFERS, what, self._step, request, -1, -1, -1, NOBODY, said, wanted))

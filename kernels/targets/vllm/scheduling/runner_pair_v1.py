"""The V1 pair: the V1 runner's host code next to our model of it (runner_pair.py).

Both also keep state on the host between steps. It is compared as well, before it can do harm. The model has no
counterpart to the inputs of layers by token, so they are compared with values derived from the rows.
"""

from __future__ import annotations

from typing import Any

from harness.case.step_plan import PlannedRow, PostprocessInput, StepPlan
from harness.kernels.targets.vllm.scheduling.batch_v1 import BatchV1
from harness.kernels.targets.vllm.scheduling.engine import Engine
from harness.kernels.targets.vllm.scheduling.host_code_v1 import HostCodeV1, LayerInputs
from harness.kernels.targets.vllm.scheduling.rules import RunnerRules
from harness.kernels.targets.vllm.scheduling.runner_model import Outcome, StepTiming
from harness.kernels.targets.vllm.scheduling.runner_model_v1 import RunnerModelV1
from harness.kernels.targets.vllm.scheduling.runner_pair import HostCodeLacks, RunnerPair


class RunnerPairV1(RunnerPair[RunnerModelV1, HostCodeV1]):
    """See module docstring. The host code may have other rules than the model: its own words, and changes of them."""

    def __init__(self, engine: Engine, rules: RunnerRules, own: RunnerRules) -> None:
        super().__init__(RunnerModelV1(engine, rules), HostCodeV1(engine, own))
        self.config = engine.config
        groups = engine.kv_cache_config.kv_cache_groups
        self._sizes = [int(groups[group].kv_cache_spec.block_size) for group in engine.attention_groups]
        self._known: dict[str, dict[int, int]] = {}
        self._output: Any = None

    def begin(self, output: Any, timing: StepTiming) -> StepPlan:
        """From the scheduler's output to what the device runs."""
        self.model._patch()  # the host code has replaced it
        for new in output.scheduled_new_reqs:
            self._known[new.req_id] = dict(enumerate(new.prompt_token_ids))
        plan = super().begin(output, timing)
        if any(row.drafts >= row.scheduled for row in plan.rows):  # such rows were scheduled up to 0.28
            raise HostCodeLacks("a row has more drafts than tokens, and nothing that could be sampled")
        self._output = output
        self._compare_hosts("before the forward pass")
        if plan.rows:
            count = len(plan.rows)
            for row, inputs, prefilling in zip(
                plan.rows, self.host.layer_inputs, self.model.prefilling(count), strict=True
            ):
                self._same("prefilling", row.request, inputs.prefilling, prefilling)
                self._compare_places(row, inputs)
        return plan

    def _compare_places(self, row: PlannedRow, inputs: LayerInputs) -> None:
        positions = list(range(row.computed, row.computed + row.scheduled))
        self._same("positions", row.request, inputs.positions, positions)
        for size, table, slots in zip(self._sizes, row.attention, inputs.slots, strict=True):
            if positions[-1] // size < len(table):
                wanted = [table[position // size] * size + position % size for position in positions]
                self._same("slot mapping", row.request, slots, wanted)

    def _compare_hosts(self, when: str) -> None:
        """Compare what both keep on the host between steps."""
        found, wanted = _host_state(self.host), _host_state(self.model)
        for name, held in found.items():
            self._same_of_each(f"{name}, {when}", held, wanted[name])

    def _same_of_each(self, what: str, held: Any, should: Any) -> None:
        """Compare values by request or by row; the first request with a difference is the evidence."""
        if held == should:
            return
        names = [row.request for row in self._rows]
        if isinstance(held, list) and len(held) == len(should) == len(names):
            held, should = dict(zip(names, held, strict=True)), dict(zip(names, should, strict=True))
        if isinstance(held, dict):
            for request in dict.fromkeys((*should, *held)):
                self._same(what, request, held.get(request, "nothing"), should.get(request, "nothing"))
        self._same(what, "the batch", held, should)

    def end(self, outcome: Outcome) -> list[PostprocessInput]:
        """Take what the sampler accepted; returns the input of the postprocess kernel."""
        self._compare_tokens()
        inputs = super().end(outcome)
        for row in self._rows:
            known, start = self._known[row.request], row.computed + row.scheduled - row.drafts
            for i, token in enumerate(outcome[row.request][1]):
                known[start + i] = token
        return inputs

    def _compare_tokens(self) -> None:
        """Compare the tokens of each row: the request's, then drafts. Only now are the positions known to be right."""
        for row, inputs in zip(self._rows, self.host.layer_inputs, strict=True):
            known, end = self._known[row.request], row.computed + row.scheduled - row.drafts
            wanted = [known.get(position) for position in range(row.computed, end)]
            drafts = self._output.scheduled_spec_decode_tokens.get(row.request, ())
            if not self.config.asynchronous and min(drafts, default=-1) >= 0:  # negative ones are padding
                wanted += drafts
            self._same("tokens", row.request, inputs.tokens[: len(wanted)], wanted)

    def finish_step(self, outcome: Outcome, counts: dict[str, int]) -> None:
        """Keep the accepted counts that postprocess left."""
        super().finish_step(outcome, counts)
        self._compare_hosts("after the sampler")
        for name, held, should in zip(
            ("accepted counts copied to the host", "counts of sampled tokens", "requests with drafts"),
            (self.host.landing(), self.host.sampled_counts(), self.host.drafted()),
            (self.model._landing, self._sampled_counts(), self._drafted()),
            strict=True,
        ):
            self._same_of_each(name, held, should)

    def _sampled_counts(self) -> list[int]:
        """How many tokens of each row are valid, by which an asynchronous engine corrects its counts."""
        asynchronous = self.config.asynchronous and self.config.num_spec
        return self.model._previous_counts if asynchronous else []

    def _drafted(self) -> dict[str, int]:
        """How many drafts of each request a synchronous engine passes to the scheduler."""
        if self.config.asynchronous or not self.config.num_spec:
            return {}
        return {row.request: self.config.num_spec for row in self._rows if row.samples}


def _host_state(side: BatchV1) -> dict[str, dict[str, Any]]:
    """Counts that the host keeps, by request."""
    batch, states = side.batch, side._runner.requests
    rows = dict(batch.req_id_to_index)
    return {
        "rows": rows,
        "computed tokens in the batch": _of_rows(batch.num_computed_tokens_cpu, rows),
        "tokens in the batch": _of_rows(batch.num_tokens_no_spec, rows),
        "computed tokens": {name: int(state.num_computed_tokens) for name, state in states.items()},
        "outputs": {name: len(state.output_token_ids) for name, state in states.items()},
        "drafts before": {name: state.prev_num_draft_len for name, state in states.items()},
        "state columns": {name: int(column) for name, column in side.mamba_state_idx.items()},
        "previous rows": dict(batch.prev_req_id_to_index or {}),
    }


def _of_rows(array: Any, rows: dict[str, int]) -> dict[str, int]:
    return {name: int(array[row]) for name, row in rows.items()}

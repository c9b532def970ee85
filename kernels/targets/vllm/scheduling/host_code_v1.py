"""The V1 host code is the V1 runner's own, whole and unmodified, on a runner without a model.

`execute_model` and `sample_tokens` are the release's own, and so is everything that they call: states, batch, inputs,
attention metadata, the steps after the sampler. The inputs of the copy kernels and the layers are intercepted: they are
the plan of the step. Copies from the device to the host land when their event is waited for, or before the next step.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from types import SimpleNamespace
from typing import Any, NamedTuple

from harness.case.step_plan import PlannedRow, PostprocessInput, StepPlan
from harness.kernels.targets.vllm.scheduling.batch_v1 import BatchV1
from harness.kernels.targets.vllm.scheduling.engine import Engine
from harness.kernels.targets.vllm.scheduling.rules import RunnerRules
from harness.kernels.targets.vllm.scheduling.rules_v1 import own_rules_v1
from harness.kernels.targets.vllm.scheduling.runner_model import Outcome, StepTiming
from harness.kernels.targets.vllm.scheduling.runner_pair import HostCodeLacks
from harness.kernels.targets.vllm.scheduling.runner_without_model_v1 import make_runner
from harness.kernels.targets.vllm.scheduling.stub_objects_v1 import HostBuffer, KernelContext
from harness.kernels.targets.vllm.scheduling.stubs import Quiet

_UNKNOWN = -1000
"""Minus a row, this represents the accepted count that a kernel will have left at the end of the step."""
_DRAFT = 1_000_000
"""The first of the numbers for proposed draft tokens; each is different."""


class LayerInputs(NamedTuple):
    """Inputs of the layers for one row, in addition to the plan: `slots` and `positions` by token, `slots` of each
    attention group; the tokens that it runs; whether the metadata say that it is a prefill.
    """

    positions: list[int]
    slots: tuple[list[int], ...]
    tokens: list[int]
    prefilling: bool


class HostCodeV1(BatchV1):
    """A runner model: see module docstring."""

    def __init__(self, engine: Engine, rules: RunnerRules) -> None:
        self.received: dict[int, tuple[Any, dict[str, Any]]] = {}
        self.layer_inputs: list[LayerInputs] = []
        self.inputs: list[PostprocessInput] = []
        self.proposed: dict[str, list[int]] = {}
        """Draft tokens that the runner keeps for the next step, of requests that sampled."""
        self._outcome: Outcome = {}
        self._pending: dict[int, int] = {}
        self._count = _DRAFT
        super().__init__(engine, rules)
        self._release = own_rules_v1()

    def make_runner(self, rows: int) -> Any:
        if self._context is not None:
            self._context = _Context(self)
        self.context, self.copy_buffers = self._context, self._copy_buffers
        return make_runner(self)

    def _table(self, group: int, row: int) -> list[int]:
        table = self.batch.block_table[group]
        cells: list[int] = table.block_table.gpu[row, : table.num_blocks_per_row[row]].tolist()
        return cells

    # One step.

    def begin(self, output: Any, timing: StepTiming) -> StepPlan:
        """From the scheduler's output to what the device runs."""
        batch = self.batch
        if timing.all_delivered and self.rules.trusts_delivered_counts:
            self._trust_counts()
        self._patch()
        self._copies.clear()
        self._scalar.clear()
        self.zeroed.clear()
        self.received.clear()
        self.layer_inputs = []
        if timing.counts_landed:
            self._land()
        self._call(self._runner.execute_model, _own(output))
        self._land()  # also after a step without rows, which waits for nothing
        plan = self._plan = StepPlan(zeroed=list(self.zeroed), copies=list(self._copies))
        if not output.total_num_scheduled_tokens:
            return plan
        names = self._names = list(batch.req_ids)
        moves = self._moves(names)
        plan.precopy, plan.fused, plan.starts = moves, self.fuses, self._starts(names, moves)
        self._plan_rows(plan, names)
        return plan

    def _call(self, function: Callable[[Any], Any], value: Any) -> None:
        """Run host code. An attribute that one of our own objects lacks is a gap in our stubs, not a release fault."""
        try:
            function(value)
        except AttributeError as error:
            if isinstance(error.obj, SimpleNamespace) or any(error.obj is one for one in self._unvalidated()):
                wanted = f"{error.name} of {type(error.obj).__name__}"
                raise HostCodeLacks(f"this release's V1 runner needs {wanted}, which our stubs lack") from error
            raise

    def _unvalidated(self) -> list[Any]:
        """Objects that the release did not create or validate."""
        config = self.engine.vllm_config
        return [config, *vars(config).values(), self._runner.__dict__.get("drafter"), self._copy_buffers, self._context]

    def _plan_rows(self, plan: StepPlan, names: list[str]) -> None:
        """Plan the rows from the inputs of the layers."""
        runner, size = self._runner, self.config.block_size
        mamba, attention = self.engine.mamba_groups, self.engine.attention_groups
        common, extra = self.received[mamba[0]]
        starts, ends = common.query_start_loc.tolist(), common.seq_lens.tolist()
        counts, decodes = extra.get("num_accepted_tokens"), extra.get("num_decode_draft_tokens_cpu")
        accepted = self.batch.num_accepted_tokens_cpu.tolist() if counts is None else counts.tolist()
        draft_counts = [-1] * len(names) if decodes is None else decodes.tolist()
        metadata = runner.execute_model_state.spec_decode_metadata
        drafts = [0] * len(names) if metadata is None else metadata.num_draft_tokens
        discarded = runner.discard_request_mask.gpu.tolist()
        self._samples = [not left for left in discarded[: len(names)]]
        tables = {group: self.received[group][0].block_table_tensor for group in (*mamba, *attention)}
        lengths = {group: self.batch.block_table[group].num_blocks_per_row for group in tables}
        positions, tokens = common.positions.tolist(), runner.input_ids.gpu.tolist()
        slots = [self.received[group][0].slot_mapping.tolist() for group in attention]
        prefilling = common.is_prefilling.tolist()
        for i, name in enumerate(names):
            begin, stop, end = starts[i], starts[i + 1], ends[i]
            scheduled = stop - begin
            speculative = draft_counts[i] >= 0
            if drafts[i] == 0 and self.rules.zero_drafts != self._release.zero_drafts:
                speculative = self.rules.zero_drafts and self._decodes(i, scheduled)
            offset, column = (0, -1) if speculative else self.checkpoints.of(name, end, scheduled)
            plan.rows.append(
                PlannedRow(
                    name,
                    i,
                    end - scheduled,
                    scheduled,
                    drafts[i],
                    speculative,
                    accepted[i],
                    max((end - 1) // size, 0),
                    self._samples[i],
                    offset,
                    column,
                    tuple(tables[group][i, : lengths[group][i]].tolist() for group in mamba),
                    tuple(tables[group][i, : lengths[group][i]].tolist() for group in attention),
                )
            )
            self.layer_inputs.append(
                LayerInputs(
                    positions[begin:stop],
                    tuple(mapping[begin:stop] for mapping in slots),
                    tokens[begin:stop],
                    prefilling[i],
                )
            )

    def _decodes(self, row: int, scheduled: int) -> bool:
        """Whether a row without drafts is a decode that could have had drafts."""
        past_prompt: bool = self._optimistic[row] >= int(self.batch.num_prompt_tokens[row])
        return self.config.num_spec > 0 and scheduled == 1 and past_prompt

    def end(self, outcome: Outcome) -> list[PostprocessInput]:
        """Take what the sampler accepted; returns the input of the postprocess kernel. `finish_step` follows."""
        self._outcome = outcome
        self.inputs = []
        counts = self.batch.num_accepted_tokens_cpu
        before = counts.copy()
        self._call(self._runner.sample_tokens, None)
        # A copy to the host was started: what it brings, and when, is not known yet.
        self._pending = {i: _UNKNOWN - held for i, held in enumerate(counts.tolist()) if held <= _UNKNOWN}
        for cell in self._pending:
            counts[cell] = before[cell]
        self._keep_drafts()
        return self.inputs

    def _keep_drafts(self) -> None:
        """The runner has zeros where drafts would not fit; replace them by numbered drafts, which can be recognised."""
        import torch

        drafts = self._runner._draft_token_ids if self.config.num_spec else None
        if drafts is None or isinstance(drafts, list):
            return
        if not drafts.any():
            drafts = self._runner._draft_token_ids = torch.tensor(self._drafts(), dtype=drafts.dtype)
        kept = zip(self._names, drafts.tolist(), self._samples, strict=True)
        self.proposed = {name: row for name, row, samples in kept if samples}

    def finish_step(self, outcome: Outcome, counts: dict[str, int]) -> None:
        """Keep the accepted counts that postprocess left."""
        if self._context is None:
            return
        reset = self.rules.resets_accepted
        left = [counts[name] if reset else outcome[name][0] for name in self._names]
        self._pending = {cell: left[row] for cell, row in self._pending.items()}
        self._accepted_last = dict(zip(self._names, left, strict=True))
        self._accepted_of.update(self._accepted_last)

    def has_drafts_of(self, name: str) -> bool:
        """Whether the device has drafts of a request for its next step."""
        if not self.config.asynchronous:
            return True
        row = next((i for i, row in enumerate(self._plan.rows) if row.request == name), None)
        kept = self._before.get(name)
        if row is None or kept is None:
            return False
        drafts = self._plan.rows[row].drafts
        return self.layer_inputs[row].tokens[-drafts:] == kept[:drafts]

    # Values that are compared with the model.

    def landing(self) -> list[int]:
        """Accepted counts that the copy to the host will bring, by row."""
        return [self._pending[row] for row in sorted(self._pending)]

    def sampled_counts(self) -> list[int]:
        """How many tokens of each row the runner found valid, where it requests that."""
        if not self._runner.use_async_spec_decode:
            return []
        counts: list[int] = self._runner._get_valid_sampled_token_count()
        return counts

    def drafted(self) -> dict[str, int]:
        """Number of drafts that the runner passes to the scheduler, for each request that sampled."""
        taken = None if self.config.asynchronous else self._runner.take_draft_token_ids()
        if taken is None:
            return {}
        drafts = dict(zip(taken.req_ids, taken.draft_token_ids, strict=True))
        return {name: len(drafts[name]) for name, samples in zip(self._names, self._samples, strict=True) if samples}

    # Calls from the runner.

    def _land(self) -> None:
        counts = self.batch.num_accepted_tokens_cpu
        for cell, count in self._pending.items():
            counts[cell] = count
        self._pending = {}

    def landing_event(self) -> Any:
        """The event of the copy of accepted counts: waiting for it makes the copy land."""
        event = Quiet()

        def wait() -> None:
            if self._pending:
                self._land()
                self._restore()

        event.__dict__["synchronize"] = wait
        return event

    def updated(self, before: set[str], output: Any) -> None:
        """Called after the release updated the batch."""
        self._scheduled_output, self._rows_before = output, before
        self._restore()
        for name in (*output.finished_req_ids, *output.scheduled_cached_reqs.resumed_req_ids):
            self._accepted_of.pop(name, None)
            self._accepted_last.pop(name, None)

    def _restore(self) -> None:
        if self.rules.keeps_accepted:
            self._restore_accepted(self._rows_before, self._scheduled_output)

    def preparing(self) -> None:
        """Called before the release prepares the inputs."""
        batch = self.batch
        self._optimistic = batch.num_computed_tokens_cpu[: batch.num_reqs].tolist()
        self._before = self.proposed

    def prepared(self, _: Any) -> None:
        """Called after the release prepared the inputs."""
        if self.rules.counts_by_request and self.config.asynchronous and self.config.num_spec:
            self._gather_accepted(list(self.batch.req_ids))

    def sampled(self, metadata: Any) -> Any:
        """The sampler: as many tokens of each row as the model accepts."""
        import torch

        width = 1 + (0 if metadata is None else max(metadata.num_draft_tokens))
        rows = []
        for name, samples in zip(self._names, self._samples, strict=True):
            tokens = self._outcome[name][1][:width] if samples else [0]
            rows.append(tokens + [-1] * (width - len(tokens)))
        return torch.tensor(rows, dtype=torch.int32)

    def propose(self, values: tuple[Any, ...]) -> Any:
        """The drafter: a new number for each draft, never given before."""
        import torch

        drafts = self._drafts()
        if self.config.spec_method == "ngram":
            sampled = next(value for value in values if isinstance(value, list))
            return [row if tokens else [] for row, tokens in zip(drafts, sampled, strict=True)]
        return torch.tensor(drafts, dtype=torch.int64)

    def _drafts(self) -> list[list[int]]:
        count, length, first = len(self._names), self.config.num_spec, self._count
        self._count += count * length
        return [list(range(first + i * length, first + (i + 1) * length)) for i in range(count)]

    def postprocess(self, given: dict[str, Any]) -> None:
        """The launch of postprocess."""
        columns, scheduled, computed, drafts, counts = (
            given[name].tolist()
            for name in (
                "mamba_state_idx_gpu",
                "num_scheduled_tokens_gpu",
                "num_computed_tokens_gpu",
                "num_draft_tokens_gpu",
                "num_accepted_tokens_gpu",
            )
        )
        for i in range(given["num_reqs"]):
            row = self._plan.rows[i]
            self.inputs.append(
                PostprocessInput(row.request, i, scheduled[i], computed[i], drafts[i], counts[i], columns[i], row.mamba)
            )


class _Context(KernelContext):
    """The context of the fused kernels, which also passes on the inputs of postprocess."""

    def __init__(self, code: HostCodeV1) -> None:
        import torch

        rows = code.config.requests
        super().__init__(lambda: HostBuffer(rows), list(code.engine.mamba_groups))
        self._code = code
        self.num_accepted_tokens_out = _UNKNOWN - torch.arange(rows, dtype=torch.int32)

    def run_fused_postprocess(self, **given: Any) -> None:
        self._code.postprocess(given)


def _own(output: Any) -> Any:
    """A scheduler's output with its own lists of blocks: a runner keeps them, and appends to them."""
    own, cached = copy(output), copy(output.scheduled_cached_reqs)
    own.scheduled_new_reqs = [copy(new) for new in output.scheduled_new_reqs]
    for new in own.scheduled_new_reqs:
        new.block_ids = _lists(new.block_ids)
    cached.new_block_ids = [None if blocks is None else _lists(blocks) for blocks in cached.new_block_ids]
    own.scheduled_cached_reqs = cached
    return own


def _lists(of_groups: Any) -> tuple[list[int], ...]:
    return tuple(list(blocks) for blocks in of_groups)

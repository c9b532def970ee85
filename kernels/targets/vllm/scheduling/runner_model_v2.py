"""The model of the V2 runner: request slots and what the runner keeps in them on the device.

The V2 runner keeps its state in tensors that kernels update, so its host code decides little: which slot a request
gets, the initial values of a slot, the order of the batch, which rows run as decodes. All this is modelled here, slot
by slot; the batch order is the release's own function if it has one. Differences between releases are in rules_v2.py.
The advance kernel's arithmetic is docs/domain.md, section 4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from harness.case.step_plan import MoveRow, PlannedRow, PostprocessInput, StartRow, StepPlan
from harness.kernels.targets.vllm.bare import accepted
from harness.kernels.targets.vllm.scheduling.checkpoints import Checkpoints
from harness.kernels.targets.vllm.scheduling.engine import Engine
from harness.kernels.targets.vllm.scheduling.loading import module
from harness.kernels.targets.vllm.scheduling.rules import RunnerRules
from harness.kernels.targets.vllm.scheduling.runner_model import Outcome, StepTiming
from harness.refusal import UnknownTarget


class LayerWords(NamedTuple):
    """What the two families of layers read of a row: Mamba2 whether it prefills, gated delta nets its number of drafts,
    -1 if it is not speculative."""

    prefilling: bool
    drafts: int


class RunnerModelV2:
    """A runner model: see module docstring."""

    def __init__(self, engine: Engine, rules: RunnerRules) -> None:
        self.engine, self.config, self.rules = engine, engine.config, rules
        slots = engine.config.requests
        groups = len(engine.kv_cache_config.kv_cache_groups)
        self.checkpoints = Checkpoints(engine, rules.checkpoints_need_blocks)
        self._slot_of: dict[str, int] = {}
        self._free = list(range(slots))
        self._computed = [0] * slots
        self._optimistic = [0] * slots
        self._prefill = [0] * slots
        self.accepted = [1] * slots
        self.state_column = [-1] * slots
        self._tables: list[list[list[int]]] = [[[] for _ in range(slots)] for _ in range(groups)]
        self._drafted: set[str] = set()
        self.fuses = True
        self._seen: set[str] = set()
        self._sort = _batch_order(engine)
        self._rows: list[PlannedRow] = []
        self.words: list[LayerWords] = []
        self._skip_drafts = False

    def begin(self, output: Any, timing: StepTiming) -> StepPlan:
        """From the scheduler's output to what the device runs. `timing` does not matter to this runner: its counts
        never leave the device, where they are exact."""
        plan = StepPlan()
        gone, preempted = output.finished_req_ids, getattr(output, "preempted_req_ids", None)
        if preempted:
            gone = gone.union(preempted)
        for name in sorted(gone) if self.rules.removes_in_order else gone:
            self._remove(name)
        for new in output.scheduled_new_reqs:
            self._add(new)
        cached = output.scheduled_cached_reqs
        for name, computed, blocks in zip(
            cached.req_ids, cached.num_computed_tokens, cached.new_block_ids, strict=True
        ):
            slot = self._slot_of[name]
            self._optimistic[slot] = computed
            if blocks is not None:
                for table, fresh in zip(self._tables, blocks, strict=True):
                    table[slot].extend(fresh)
        plan.zeroed = list(getattr(output, "new_block_ids_to_zero", None) or ())
        copies = getattr(output, "kv_cache_block_copies", None) or ()
        plan.copies = [(copy.src_block_id, copy.dst_block_id) for copy in copies]
        self._skip_drafts = bool(getattr(output, "skip_drafts", False))
        self._rows = plan.rows
        self.words = []
        if output.total_num_scheduled_tokens == 0:
            return plan
        drafts = output.scheduled_spec_decode_tokens
        for name in self._sort(output.num_scheduled_tokens, drafts):
            self._plan_row(plan, name, output.num_scheduled_tokens[name], len(drafts.get(name, ())))
        return plan

    def _plan_row(self, plan: StepPlan, name: str, scheduled: int, drafts: int) -> None:
        size, slot = self.config.block_size, self._slot_of[name]
        computed = self._computed[slot]
        prefilled = min(self._optimistic[slot], self._prefill[slot])
        prefilling = prefilled < self._prefill[slot]
        self.words.append(self._words(prefilling, prefilled > 0, scheduled, drafts))
        if prefilling and scheduled - drafts == 1:
            padded = drafts > 0 and not self.rules.padded_tails
            prefilling = not self.rules.fresh_rows_start_empty if prefilled == 0 else padded
        decodes = not prefilling and 0 < scheduled <= self.config.num_spec + 1
        marked = drafts > 0 or self.rules.zero_drafts
        speculative = self.config.num_spec > 0 and decodes and marked
        mamba = tuple(list(self._tables[group][slot]) for group in self.engine.mamba_groups)
        end = computed + scheduled
        source, bias = self.state_column[slot], max(self.accepted[slot] - 1, 0)
        column = -(-end // size) - 1
        plan.starts.append(StartRow(slot, source, column, bias, self.accepted[slot], computed, scheduled))
        if source >= 0 and source != column:
            self.accepted[slot] = 1
            plan.precopy.append(MoveRow(name, slot, source, column, bias, mamba))
        self.state_column[slot] = column
        offset, where = (0, -1) if speculative else self.checkpoints.of(name, end, scheduled)
        plan.rows.append(
            PlannedRow(
                name,
                slot,
                computed,
                scheduled,
                drafts,
                speculative,
                self.accepted[slot],
                max((end - 1) // size, 0),
                end >= self._prefill[slot],
                offset,
                where,
                mamba,
                tuple(list(self._tables[group][slot]) for group in self.engine.attention_groups),
            )
        )

    def _words(self, prefilling: bool, started: bool, scheduled: int, drafts: int) -> LayerWords:
        """What the host code of the release says of a row to either family of layers."""
        rules = self.rules
        if rules.flags_tails and started and scheduled - drafts == 1:
            prefilling = False
        marked = rules.marked_rows.marks(scheduled, drafts, prefilling, self.config.num_spec + 1)
        return LayerWords(prefilling, drafts if marked else -1)

    def _add(self, new: Any) -> None:
        self._remove(new.req_id)
        slot = self._free.pop()
        self._slot_of[new.req_id] = slot
        tokens = getattr(new, "prefill_token_ids", None)
        if tokens is None:
            raise UnknownTarget("this release does not pass the tokens of a new request to the V2 runner")
        self._prefill[slot] = len(tokens)
        self._computed[slot] = self._optimistic[slot] = new.num_computed_tokens
        self.accepted[slot] = 1
        if self.rules.forgets_columns or new.req_id not in self._seen:
            smallest = int(self.engine.vllm_config.cache_config.block_size)
            self.state_column[slot] = self.rules.column_unit.column(
                new.num_computed_tokens, self.config.block_size, smallest
            )
        self._seen.add(new.req_id)
        for table, blocks in zip(self._tables, new.block_ids, strict=True):
            table[slot] = list(blocks)

    def _remove(self, name: str) -> None:
        slot = self._slot_of.pop(name, None)
        self._drafted.discard(name)
        if slot is not None:
            self._free.append(slot)

    def as_layers_run(self, plan: StepPlan) -> None:
        """Nothing: a row is planned as layers of both families run it."""

    def end(self, outcome: Outcome) -> list[PostprocessInput]:
        """Take what the sampler accepted; returns the input of the postprocess kernel."""
        inputs = []
        for row in self._rows:
            kept = outcome[row.request][0] if row.samples else 0
            rejected = row.drafts + 1 - kept if row.samples else 0
            self._computed[row.slot] = row.computed + row.scheduled - rejected
            accepted = max(kept, 1)
            drafts = row.drafts if row.samples else 0
            inputs.append(
                PostprocessInput(
                    row.request,
                    row.slot,
                    row.scheduled,
                    row.computed,
                    drafts,
                    accepted,
                    self.state_column[row.slot],
                    row.mamba,
                )
            )
        return inputs

    def finish_step(self, outcome: Outcome, counts: dict[str, int]) -> None:
        """Keep the accepted counts that postprocess left."""
        for row in self._rows:
            kept = outcome[row.request][0] if row.samples else 1
            self.accepted[row.slot] = counts[row.request] if self.rules.resets_accepted else kept
            if row.samples and not self._skip_drafts:
                self._drafted.add(row.request)
            else:
                self._drafted.discard(row.request)

    def has_drafts_of(self, name: str) -> bool:
        """Whether the device has drafts of a request for its next step."""
        return name in self._drafted


def _batch_order(engine: Engine) -> Callable[[dict[str, int], dict[str, list[int]]], list[str]]:
    """The order of the batch: the release's own function if it can be called."""
    runner = module("vllm.v1.worker.gpu.model_runner")
    order = getattr(runner, "sort_batch_req_ids", None)
    length = engine.config.num_spec + 1
    if order is not None:
        return lambda tokens, drafts: list(
            order(**accepted(order, {"num_tokens_per_req": tokens, "draft_tokens": drafts, "decode_query_len": length}))
        )
    return lambda tokens, drafts: sorted(tokens, key=lambda name: tokens[name])

"""The V2 host code is the V2 runner's own, in the loop and unmodified, on a runner without a model.

`execute_model` and `sample_tokens` are the release's own, and so is everything that they call: request states, block
tables, the order and the counts of the batch, the Mamba model state. launches_v2.py defines what a kernel does. The
inputs of the copy kernels and the layers are intercepted: they are the plan of the step.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from harness.case.step_plan import MoveRow, PlannedRow, PostprocessInput, StartRow, StepPlan
from harness.kernels.targets.vllm.scheduling.checkpoints import Checkpoints
from harness.kernels.targets.vllm.scheduling.engine import Engine
from harness.kernels.targets.vllm.scheduling.loading import module
from harness.kernels.targets.vllm.scheduling.rules import RunnerRules
from harness.kernels.targets.vllm.scheduling.rules_v2 import GPU, own_rules_v2
from harness.kernels.targets.vllm.scheduling.runner_model import Outcome, StepTiming
from harness.kernels.targets.vllm.scheduling.runner_model_v2 import LayerWords
from harness.kernels.targets.vllm.scheduling.runner_without_model_v2 import make_runner

_PROPOSED = 1
"""Represents a draft token that the drafter proposed after a sampled one; 0 for any other."""


class HostCodeV2:
    """A runner model: see module docstring."""

    def __init__(self, engine: Engine, rules: RunnerRules) -> None:
        self.engine, self.config, self.rules = engine, engine.config, rules
        self.checkpoints = Checkpoints(engine, rules.checkpoints_need_blocks)
        self.fuses = True
        self._release = own_rules_v2()
        """A rule that the loaded code itself has changes nothing here."""
        self.words: list[LayerWords | None] = []
        self.seen: set[str] = set()
        self.outcome: Outcome = {}
        self.zeroed: list[int] = []
        self.copies: list[tuple[int, int]] = []
        self.layers = _Layers(engine)
        self.context = _Context(self)
        self._plan = StepPlan()
        self._inputs: list[PostprocessInput] = []
        self._rows: list[PlannedRow] = []
        self.runner = make_runner(self)
        self._count_sampled = module(f"{GPU}.input_batch").get_num_sampled_and_rejected
        self.states, self.model_state = self.runner.req_states, self.runner.model_state
        self.tables = [table.gpu.numpy() for table in self.runner.block_tables.block_tables]
        self.batch_tables = [table.numpy() for table in self.runner.block_tables.input_block_tables]

    # One step.

    def begin(self, output: Any, timing: StepTiming) -> StepPlan:
        """From the scheduler's output to what the device runs. `timing` does not matter to this runner."""
        self.zeroed.clear()
        self.copies.clear()
        self.words = []
        self._plan = plan = StepPlan()
        self.runner.execute_model(output)
        plan.zeroed, plan.copies = list(self.zeroed), list(self.copies)
        self._rows = plan.rows
        state = self.runner.execute_model_state
        if state is None:
            return plan
        self._plan_rows(plan, state.input_batch)
        return plan

    def _plan_rows(self, plan: StepPlan, batch: Any) -> None:
        """Plan the rows from the inputs of the layers: counts on the device, tables as gathered for the batch."""
        received, size = self.layers.received, self.config.block_size
        ends = received["seq_lens"].tolist()
        starts = received["query_start_loc_gpu"].tolist()
        logits = batch.cu_num_logits.tolist()
        slots = batch.idx_mapping.tolist()
        metadata = received["model_specific_attn_metadata"]
        counts, decodes = metadata.num_accepted_tokens, metadata.num_decode_draft_tokens_cpu
        accepted_counts = None if counts is None else counts.tolist()
        draft_counts = None if decodes is None else decodes.tolist()
        prefilling = metadata.is_prefilling.tolist()
        prefill = self.states.prefill_len.gpu.tolist()
        lengths = self.runner.block_tables.num_blocks.np.tolist()
        mamba, attention = self.engine.mamba_groups, self.engine.attention_groups
        tables = self.batch_tables
        changed = self.rules.zero_drafts != self._release.zero_drafts
        for row, name in enumerate(batch.req_ids):
            slot, end = slots[row], ends[row]
            scheduled, drafts = starts[row + 1] - starts[row], logits[row + 1] - logits[row] - 1
            speculative = draft_counts is not None and self._speculative(
                batch, row, scheduled, drafts, draft_counts[row] >= 0, prefilling[row]
            )
            # Of a row that a fix or a planted fault marks in another way, the code's own word says nothing.
            known = draft_counts is not None and not (changed and drafts == 0)
            self.words.append(LayerWords(prefilling[row], draft_counts[row]) if draft_counts and known else None)
            offset, where = (0, -1) if speculative else self.checkpoints.of(name, end, scheduled)
            plan.rows.append(
                PlannedRow(
                    name,
                    slot,
                    end - scheduled,
                    scheduled,
                    drafts,
                    speculative,
                    1 if accepted_counts is None else accepted_counts[row],
                    max((end - 1) // size, 0),
                    end >= prefill[slot],
                    offset,
                    where,
                    tuple(tables[group][row, : lengths[group][slot]].tolist() for group in mamba),
                    tuple(tables[group][row, : lengths[group][slot]].tolist() for group in attention),
                )
            )

    def _speculative(self, batch: Any, row: int, scheduled: int, drafts: int, marked: bool, prefilling: bool) -> bool:
        """Whether layers of both families run a row as speculative, by their inputs and by the rules."""
        rules, release = self.rules, self._release
        started = int(batch.num_computed_prefill_tokens_np[row]) > 0
        one = scheduled - drafts == 1
        if prefilling and started and one and (drafts == 0 or (marked and release.padded_tails)):
            prefilling = False
        if one and bool(batch.is_prefilling_np[row]):
            other = rules.padded_tails and not release.padded_tails if started else rules.fresh_rows_start_empty
            if other:
                prefilling, marked = False, drafts > 0 or release.zero_drafts
        if drafts == 0 and rules.zero_drafts != release.zero_drafts:
            marked = rules.zero_drafts
        return marked and not prefilling and 0 < scheduled <= self.config.num_spec + 1

    def precopy(self, before: list[int], count: int, columns: Any, sources: Any, biases: Any, mapping: Any) -> None:
        """The launch of precopy, just after that of advance; `before` are the accepted counts that advance read."""
        batch = self.runner.batch
        computed = self.states.num_computed_tokens.gpu.tolist()
        columns, sources, biases = columns.tolist(), sources.tolist(), biases.tolist()
        scheduled = batch.num_scheduled_tokens.tolist()
        lengths = self.runner.block_tables.num_blocks.np.tolist()
        for row, slot in enumerate(mapping.tolist()[:count]):
            source, column = sources[slot], columns[slot]
            self._plan.starts.append(
                StartRow(slot, source, column, biases[slot], before[slot], computed[slot], scheduled[row])
            )
            if source >= 0 and source != column:
                tables = tuple(
                    self.tables[group][slot, : lengths[group][slot]].tolist() for group in self.engine.mamba_groups
                )
                self._plan.precopy.append(MoveRow(batch.req_ids[row], slot, source, column, biases[slot], tables))

    def as_layers_run(self, plan: StepPlan) -> None:
        """Nothing: a row is planned as layers of both families run it."""

    def end(self, outcome: Outcome) -> list[PostprocessInput]:
        """Take what the sampler accepted; returns the input of the postprocess kernel."""
        self.outcome = outcome
        self._inputs = []
        self.runner.sample_tokens(None)
        return self._inputs

    def postprocess(self, count: int, counts: Any, columns: Any, computed: Any, mapping: Any) -> None:
        """The launch of postprocess. It gets `computed` as of after the step; the rest follows from that."""
        counts, columns, computed = counts.tolist(), columns.tolist(), computed.tolist()
        for row, slot in zip(self._rows, mapping.tolist()[:count], strict=True):
            running = computed[slot] - counts[slot] + 1
            drafts = row.computed + row.scheduled - running
            self._inputs.append(
                PostprocessInput(
                    row.request,
                    slot,
                    row.scheduled,
                    row.computed,
                    drafts,
                    counts[slot],
                    columns[slot],
                    row.mamba,
                )
            )

    def finish_step(self, outcome: Outcome, counts: dict[str, int]) -> None:
        """Keep the accepted counts that postprocess left."""
        held = self.model_state.num_accepted_tokens_gpu.numpy()
        for row in self._rows:
            kept = outcome[row.request][0] if row.samples else 1
            held[row.slot] = counts[row.request] if self.rules.resets_accepted else kept

    def has_drafts_of(self, name: str) -> bool:
        """Whether the device has drafts of a request for its next step."""
        slot = self.states.req_id_to_index.get(name)
        return slot is not None and int(self.states.draft_tokens[slot, 0]) == _PROPOSED

    # Calls from the runner.

    def sampled(self, batch: Any) -> tuple[Any, Any, Any]:
        """The sampler: as many tokens of each row as the model accepts, counted by the release's own function."""
        import torch

        outcome = self.outcome
        counts = torch.tensor([outcome[name][0] for name in batch.req_ids], dtype=torch.int32)
        count = len(batch.req_ids)
        counts, rejected = self._count_sampled(
            counts, batch.seq_lens[:count], batch.cu_num_logits, batch.idx_mapping, self.states.prefill_len.gpu
        )
        tokens = torch.zeros(count, self.config.num_spec + 1, dtype=torch.int64)
        return SimpleNamespace(sampled_token_ids=tokens, num_sampled=counts, num_rejected=rejected), counts, rejected

    def propose(self) -> Any:
        """The drafter: proposals for every row; they are valid only after a sampled token."""
        import torch

        drafts = [[_PROPOSED if row.samples else 0] * self.config.num_spec for row in self._rows]
        return torch.tensor(drafts, dtype=torch.int64)

    def seed(self, slot: int, new: Any, before: int) -> None:
        """After the release seeded a slot: apply the rules instead. `before` is the slot's earlier state column."""
        rules, columns = self.rules, self.model_state._mamba_state_idx_gpu
        if not rules.forgets_columns and new.req_id in self.seen:
            columns[slot] = before
        elif rules.column_unit is not self._release.column_unit:
            smallest = int(self.engine.vllm_config.cache_config.block_size)
            columns[slot] = rules.column_unit.column(new.num_computed_tokens, self.config.block_size, smallest)
        self.seen.add(new.req_id)


class _Layers(list[Any]):
    """The attention groups of the runner: keeps the inputs of their metadata builders."""

    def __init__(self, engine: Engine) -> None:
        super().__init__([] for _ in engine.kv_cache_config.kv_cache_groups)
        self.received: dict[str, Any] = {}


class _Context:
    """Takes the place of the context of the copy kernels, already created: passes on their inputs."""

    is_initialized = True

    def __init__(self, code: HostCodeV2) -> None:
        self._code = code
        self.before: list[int] = []

    def run_fused_precopy(self, *values: Any) -> None:
        self._code.precopy(self.before, *values)

    def run_fused_postprocess_align(self, *values: Any) -> None:
        self._code.postprocess(*values)

"""The V1 worker: the host code of the V1 runner, in the loop and unmodified, on a stand-in of the runner.

`_update_states`, the input batch with its condensing and reordering, `preprocess_mamba` and the staging of postprocess
inputs are the release's own functions; what they hand to kernels is caught where they would launch. Between them stand
the few lines of `_prepare_inputs` that matter here: which accepted counts a row gets, which rows are speculative.
"""

from __future__ import annotations

import inspect
import types
from typing import Any

from harness.case.step_plan import ForwardRow, MoveRow, PostprocessInput, StartRow, StepPlan
from harness.kernels.targets.vllm.bare import accepted, parameter_names
from harness.kernels.targets.vllm.scheduling.checkpoints import Checkpoints
from harness.kernels.targets.vllm.scheduling.engine import Engine
from harness.kernels.targets.vllm.scheduling.loading import module
from harness.kernels.targets.vllm.scheduling.mamba2_rows import run_as_mamba2
from harness.kernels.targets.vllm.scheduling.rules import ColumnUnit, RunnerRules
from harness.kernels.targets.vllm.scheduling.runner_model import Outcome, StepTiming
from harness.kernels.targets.vllm.scheduling.standins_v1 import (
    NOTHING,
    Buffer,
    Precopy,
    Standin,
    without_pinned_memory,
)
from harness.refusal import UnknownTarget


def _original(holder: Any, name: str) -> Any:
    """Production's function, also once an earlier worker has put its own in the place of it."""
    function = getattr(holder, name, None)
    return getattr(function, "original", function)


def _parameters_of(function: Any) -> list[str]:
    """Parameter names of production's function, also once an earlier worker has put its own in the place of it."""
    return getattr(function, "caught", None) or list(inspect.signature(function).parameters)


class WorkerV1:
    """See module docstring. `begin` takes a scheduler's output to the forward pass, `end` from its outcome on."""

    def __init__(self, engine: Engine, rules: RunnerRules) -> None:
        import torch

        self.engine, self.config, self.rules = engine, engine.config, rules
        config = engine.config
        self._runner_module = module("vllm.v1.worker.gpu_model_runner")
        self._utils = module("vllm.v1.worker.mamba_utils")
        batch_module = module("vllm.v1.worker.gpu_input_batch")
        self._kind = self._runner_module.GPUModelRunner
        self.checkpoints = Checkpoints(engine, rules.checkpoints_need_blocks)
        self.smallest_block = int(engine.vllm_config.cache_config.block_size)
        sizes = [group.kv_cache_spec.block_size for group in engine.kv_cache_config.kv_cache_groups]
        widths = [self._width(group.kv_cache_spec) for group in engine.kv_cache_config.kv_cache_groups]
        self._widths = widths
        without_pinned_memory()
        offered = {
            "max_num_reqs": config.requests,
            "max_model_len": config.length_limit + config.num_spec + 1,
            "max_num_batched_tokens": config.budget,
            "device": torch.device("cpu"),
            "pin_memory": False,
            "vocab_size": config.vocabulary + 40,
            "block_sizes": sizes,
            "kernel_block_sizes": sizes,
            "max_num_blocks_per_req": widths,
            "num_speculative_tokens": config.num_spec,
            "num_spec_tokens": config.num_spec,
            "is_spec_decode": config.num_spec > 0,
        }
        self.batch = batch_module.InputBatch(**accepted(batch_module.InputBatch.__init__, offered))
        rows = config.requests
        self.mamba_state_idx: dict[str, int] = {}
        groups = list(engine.mamba_groups)
        self._context = Precopy(lambda: Buffer(rows), groups) if config.num_spec else None
        specs = engine.kv_cache_config.kv_cache_groups
        self._copy_buffers = Standin(
            "preprocess_mamba", mamba_group_ids=groups, mamba_spec=specs[groups[0]].kv_cache_spec, offset=0
        )
        self._scalar: list[MoveRow] = []
        self._copies: list[tuple[int, int]] = []
        self.zeroed: list[int] = []
        self._speculative = engine.vllm_config.speculative_config
        self._runner = self._make_runner(rows)
        self._previous_counts: list[int] = []
        self._previous_computed: list[int] = []
        self._landing: list[int] = []
        self._accepted_last: dict[str, int] = {}
        self._accepted_of: dict[str, int] = {}
        self._plan = StepPlan()
        self.fuses = self._context is not None and "align_ctx" in parameter_names(self._utils.preprocess_mamba)
        """Whether states move by a kernel that decides for itself, and not by a list of copies made on the host."""
        self._cleanup = _original(self._utils, "cleanup_mamba_state_idx")
        self._patch()

    def _width(self, spec: Any) -> int:
        length = self.config.length_limit + self.config.num_spec + 1
        return -(-length // int(spec.block_size)) + self.config.num_spec + 1

    def _make_runner(self, rows: int) -> Any:
        config, engine = self.config, self.engine
        worker = self

        class Runner(Standin):
            def _zero_block_ids(self, blocks: list[int]) -> None:
                worker.zeroed.extend(blocks)

            def _on_request_state_removed(self, *_: Any) -> None:
                """Nothing: no other state hangs on a request here."""

            def _process_encoder_cache_scheduler_output(self, *_: Any) -> None:
                """Nothing: no encoder."""

            def _get_valid_sampled_token_count(self) -> list[int]:
                return worker._previous_counts

        runner = Runner(
            "V1 runner",
            requests={},
            input_batch=self.batch,
            num_prompt_logprobs={},
            late_interaction_runner=NOTHING,
            encoder_cache={},
            kv_caches=[],
            kv_cache_config=engine.kv_cache_config,
            speculative_config=self._speculative,
            is_pooling_model=False,
            uses_mrope=False,
            uses_xdrope_dim=0,
            device="cpu",
            use_async_scheduling=config.asynchronous,
            use_async_spec_decode=config.asynchronous and config.num_spec > 0,
            prev_num_draft_tokens=Buffer(rows),
            reorder_batch_threshold=1 + config.num_spec,
            model_config=engine.vllm_config.model_config,
            cache_config=engine.vllm_config.cache_config,
            scheduler_config=engine.vllm_config.scheduler_config,
            vllm_config=engine.vllm_config,
            num_spec_tokens=config.num_spec,
            max_model_len=config.length_limit,
            _ngram_pinned_idx_buf=None,
            _ngram_pinned_val_buf=None,
        )
        runner.__dict__["_may_reorder_batch"] = types.MethodType(self._kind._may_reorder_batch, runner)
        return runner

    def _patch(self) -> None:
        """Catch what the release's functions would launch, and tell them that there is one rank."""
        worker = self
        runner_module, utils = self._runner_module, self._utils
        rank = types.SimpleNamespace(is_last_rank=True, is_first_rank=True, world_size=1)
        runner_module.get_pp_group = lambda: rank
        if hasattr(runner_module, "copy_kv_cache_blocks_inplace"):
            runner_module.copy_kv_cache_blocks_inplace = lambda caches, blocks, copies, *_: worker._copies.extend(
                (copy.src_block_id, copy.dst_block_id) for copy in copies
            )

        names = _parameters_of(utils.collect_mamba_copy_meta)

        def collect(*values: Any, **named: Any) -> None:
            said = {**dict(zip(names, values, strict=False)), **named}
            source, destination, bias = said["src_block_idx"], said["dest_block_idx"], said["accept_token_bias"]
            if source == destination and bias == 0:
                return
            state = said["req_state"]
            tables = tuple(state.block_ids[group] for group in said["mamba_group_ids"])
            worker._scalar.append(MoveRow(state.req_id, 0, source, destination, bias, tables))

        collect.caught = names  # type: ignore[attr-defined]
        utils.collect_mamba_copy_meta = collect
        utils.do_mamba_copy_block = lambda *_, **__: None

        def clean(output: Any, columns: dict[str, int]) -> None:
            rules = worker.rules
            if rules.forgets_columns:
                worker._cleanup(output, columns)
            else:
                for name in output.finished_req_ids:
                    columns.pop(name, None)
            if rules.column_unit is not ColumnUnit.MAMBA:  # in which the release's own function counts
                for new in output.scheduled_new_reqs:
                    columns[new.req_id] = rules.column_unit.column(
                        new.num_computed_tokens, worker.config.block_size, worker.smallest_block
                    )

        if self._cleanup is not None:
            clean.original = self._cleanup  # type: ignore[attr-defined]
            utils.cleanup_mamba_state_idx = clean

    # One step.

    def begin(self, output: Any, timing: StepTiming) -> StepPlan:
        """From the scheduler's output to what the device runs."""
        config, batch, runner = self.config, self.batch, self._runner
        if timing.all_delivered and self.rules.trusts_delivered_counts:
            self._trust_counts()
        self._copies.clear()
        self._scalar.clear()
        self.zeroed.clear()
        landing, self._landing = self._landing, []
        if timing.counts_landed:
            batch.num_accepted_tokens_cpu[: len(landing)] = landing
        before = set(batch.req_id_to_index)
        corrections = self._kind._update_states(runner, output)
        if not timing.counts_landed:
            batch.num_accepted_tokens_cpu[: len(landing)] = landing
        if self.rules.keeps_accepted:
            self._restore_accepted(before, output)
        for name in (*output.finished_req_ids, *output.scheduled_cached_reqs.resumed_req_ids):
            self._accepted_of.pop(name, None)
            self._accepted_last.pop(name, None)
        plan = self._plan = StepPlan(zeroed=list(self.zeroed), copies=list(self._copies))
        if output.total_num_scheduled_tokens == 0:
            return plan
        names = list(batch.req_ids)
        count = len(names)
        scheduled = [output.num_scheduled_tokens[name] for name in names]
        drafts = output.scheduled_spec_decode_tokens
        optimistic = batch.num_computed_tokens_cpu[:count].tolist()
        samples = [
            computed + tokens >= runner.requests[name].num_tokens
            for name, computed, tokens in zip(names, optimistic, scheduled, strict=True)
        ]
        self._gather_accepted(names)
        computed = self._computed_on_device(names, optimistic)
        if corrections is not None:
            corrections()
        self._preprocess(output)
        moves = self._moves(names)
        plan.precopy = moves
        plan.fused = self.fuses
        plan.starts = self._starts(names, moves)
        if self._context is not None:
            self._stage(output, names)
        accepted_counts = batch.num_accepted_tokens_cpu[:count].tolist()
        prompts = batch.num_prompt_tokens[:count].tolist()
        for i, name in enumerate(names):
            draft = len(drafts.get(name, ()))
            speculative = bool(self.config.num_spec) and (
                (draft > 0 and scheduled[i] == draft + 1)
                or (self.rules.zero_drafts and optimistic[i] >= prompts[i] and scheduled[i] == 1)
            )
            end = computed[i] + scheduled[i]
            offset, column = (0, -1) if speculative else self.checkpoints.of(name, end, scheduled[i])
            plan.rows.append(
                ForwardRow(
                    name,
                    i,
                    computed[i],
                    scheduled[i],
                    draft,
                    speculative,
                    accepted_counts[i],
                    max((end - 1) // config.block_size, 0),
                    samples[i],
                    offset,
                    column,
                    tuple(self._table(group, i) for group in self.engine.mamba_groups),
                    tuple(self._table(group, i) for group in self.engine.attention_groups),
                )
            )
        self._names, self._samples, self._computed = names, samples, computed
        return plan

    def as_layers_run(self, plan: StepPlan) -> None:
        """Run rows as layers of Mamba2 do."""
        longest, prefilling = self.config.num_spec + 1, self.prefilling(len(plan.rows))
        run_as_mamba2(plan, self.rules, longest, prefilling, self.checkpoints)

    def prefilling(self, count: int) -> list[bool]:
        """Which of the `count` rows of the batch are not past their prompt, as the host counts."""
        batch = self.batch
        flags: list[bool] = (batch.num_computed_tokens_cpu[:count] < batch.num_prompt_tokens[:count]).tolist()
        return flags

    def _restore_accepted(self, before: set[str], output: Any) -> None:
        resumed = output.scheduled_cached_reqs.resumed_req_ids
        for name, row in self.batch.req_id_to_index.items():
            if name not in before and name not in resumed and name in self._accepted_of:
                self.batch.num_accepted_tokens_cpu[row] = self._accepted_of[name]

    def _table(self, group: int, row: int) -> list[int]:
        table = self.batch.block_table[group]
        cells: list[int] = table.block_table.np[row, : table.num_blocks_per_row[row]].tolist()
        return cells

    def _gather_accepted(self, names: list[str]) -> None:
        """The accepted counts that `_prepare_inputs` takes over from the last step, which may have had other rows."""
        if not self.config.num_spec:
            return
        batch = self.batch
        if self.rules.counts_by_request and self.config.asynchronous:
            known = self._accepted_last
            batch.num_accepted_tokens_cpu[: len(names)] = [
                known.get(name, self._accepted_of.get(name, 1) if self.rules.keeps_accepted else 1) for name in names
            ]
            return
        previous = batch.prev_req_id_to_index
        if not (self.config.asynchronous and previous and self.rules.counts_by_previous_row):
            return
        counts = batch.num_accepted_tokens_cpu.tolist()
        batch.num_accepted_tokens_cpu[: len(names)] = [
            counts[previous[name]] if name in previous else 1 for name in names
        ]

    def _computed_on_device(self, names: list[str], optimistic: list[int]) -> list[int]:
        """Computed tokens as the device counts them: corrected by what the last step accepted."""
        previous = self.batch.prev_req_id_to_index
        if not (self._runner.use_async_spec_decode and self._previous_counts and previous):
            return optimistic
        drafts = self._runner.prev_num_draft_tokens.np
        corrected = []
        for name, computed in zip(names, optimistic, strict=True):
            row = previous.get(name, -1)
            if row >= 0 and drafts[row] > 0:
                corrected.append(self._previous_computed[row] + self._previous_counts[row])
            else:
                corrected.append(computed)
        return corrected

    def _preprocess(self, output: Any) -> None:
        arguments = {
            "scheduler_output": output,
            "kv_cache_config": self.engine.kv_cache_config,
            "cache_config": self.engine.vllm_config.cache_config,
            "mamba_state_idx": self.mamba_state_idx,
            "input_batch": self.batch,
            "requests": self._runner.requests,
            "forward_context": {},
            "mamba_state_copy_funcs": {},
            "copy_bufs": self._copy_buffers,
        }
        function = self._utils.preprocess_mamba
        if self.fuses:
            arguments["align_ctx"] = self._context
        function(**arguments)

    def _moves(self, names: list[str]) -> list[MoveRow]:
        if not self.fuses:
            row_of = {name: i for i, name in enumerate(names)}
            return [move._replace(slot=row_of[move.request]) for move in self._scalar]
        context = self._context
        assert context is not None
        moves = []
        for i, (name, (source, destination, bias)) in enumerate(zip(names, context.handed_over(names), strict=True)):
            if source >= 0 and source != destination:
                tables = tuple(self._table(group, i) for group in self.engine.mamba_groups)
                moves.append(MoveRow(name, i, source, destination, bias, tables))
        return moves

    def _starts(self, names: list[str], moves: list[MoveRow]) -> list[StartRow]:
        """What precopy gets for every row of the batch."""
        if self.fuses and self._context is not None:
            return [StartRow(i, *row, 0, 0, 0) for i, row in enumerate(self._context.handed_over(names))]
        moved = {move.slot: StartRow(move.slot, move.source, move.destination, move.bias, 0, 0, 0) for move in moves}
        kept = self.mamba_state_idx
        return [moved.get(i, StartRow(i, -1, kept[name], 0, 0, 0, 0)) for i, name in enumerate(names)]

    def _stage(self, output: Any, names: list[str]) -> None:
        context, requests = self._context, self._runner.requests
        stage = getattr(self._utils, "stage_postprocess_inputs_to_gpu", None)
        if stage is None:
            raise UnknownTarget("this release has no stage_postprocess_inputs_to_gpu")
        offered = {
            "ctx": context,
            "scheduler_output": output,
            "req_ids": names,
            "num_reqs": len(names),
            "requests": requests,
            "mamba_state_idx": self.mamba_state_idx,
        }
        stage(**accepted(stage, offered))

    def end(self, outcome: Outcome) -> list[PostprocessInput]:
        """Take what the sampler accepted; what the postprocess kernel gets. `settle` follows."""
        names = self._names
        counts = [outcome[name][0] if keep else 1 for name, keep in zip(names, self._samples, strict=True)]
        self._previous_counts = [
            outcome[name][0] if keep else 0 for name, keep in zip(names, self._samples, strict=True)
        ]
        self._previous_computed = self._computed
        inputs: list[PostprocessInput] = []
        if self._context is not None:
            context = self._context
            columns = context.mamba_state_idx_buf.np[: len(names)].tolist()
            scheduled = context.num_scheduled_tokens_buf.np[: len(names)].tolist()
            computed = context.num_computed_tokens_buf.np[: len(names)].tolist()
            drafts = context.num_draft_tokens_buf.np[: len(names)].tolist()
            for i, name in enumerate(names):
                tables = tuple(row for row in self._plan.rows[i].mamba)
                inputs.append(
                    PostprocessInput(name, i, scheduled[i], computed[i], drafts[i], counts[i], columns[i], tables)
                )
        return inputs

    def settle(self, outcome: Outcome, counts: dict[str, int]) -> None:
        """Keep the accepted counts that postprocess left, and the tokens that were sampled."""
        batch, names = self.batch, self._names
        if self._context is not None:
            reset = self.rules.resets_accepted
            self._landing = [counts[name] if reset else outcome[name][0] for name in names]
            self._accepted_last = dict(zip(names, self._landing, strict=True))
            self._accepted_of.update(self._accepted_last)
        asynchronous = self.config.asynchronous
        if asynchronous:
            batch.prev_sampled_token_ids = self._previous_counts
            batch.prev_req_id_to_index = {
                name: i for i, (name, keep) in enumerate(zip(names, self._samples, strict=True)) if keep
            }
        for i, name in enumerate(names):
            tokens = [-1] if asynchronous and self._samples[i] else outcome[name][1]
            if not tokens:
                continue
            start = int(batch.num_tokens_no_spec[i])
            end = start + len(tokens)
            batch.token_ids_cpu[i, start:end] = tokens
            batch.is_token_ids[i, start:end] = True
            batch.num_tokens_no_spec[i] = end
            self._runner.requests[name].output_token_ids.extend(tokens)

    def _trust_counts(self) -> None:
        """All outputs are delivered, so the scheduler's counts are exact and need no correction."""
        for state in self._runner.requests.values():
            state.prev_num_draft_len = 0

    def has_drafts_of(self, name: str) -> bool:
        """Whether the device has drafts of a request for its next step."""
        if not self.config.asynchronous:
            return True
        previous = self.batch.prev_req_id_to_index
        return bool(previous) and name in previous

"""A V1 batch is what the V1 runner keeps on the host between steps; a model and the host code both work on it.

The input batch, its condensing and reordering, and the functions that move states are the release's own; what they
pass to kernels is intercepted where they would launch. The accepted counts are kept in addition: rules may look them
up in another way than the release does.
"""

from __future__ import annotations

import abc
import inspect
import types
from typing import Any

from harness.case.step_plan import MoveRow, StartRow, StepPlan
from harness.kernels.targets.vllm.bare import accepted, parameter_names
from harness.kernels.targets.vllm.scheduling.checkpoints import Checkpoints
from harness.kernels.targets.vllm.scheduling.engine import Engine
from harness.kernels.targets.vllm.scheduling.loading import module
from harness.kernels.targets.vllm.scheduling.mamba2_rows import run_as_mamba2
from harness.kernels.targets.vllm.scheduling.rules import ColumnUnit, RunnerRules
from harness.kernels.targets.vllm.scheduling.stub_objects_v1 import (
    HostBuffer,
    KernelContext,
    Stub,
    without_pinned_memory,
)


def _original(holder: Any, name: str) -> Any:
    """Production's function, even if an earlier batch has replaced it."""
    function = getattr(holder, name, None)
    return getattr(function, "original", function)


def _parameters_of(function: Any) -> list[str]:
    """Parameter names of production's function, even if an earlier batch has replaced it."""
    return getattr(function, "caught", None) or list(inspect.signature(function).parameters)


class BatchV1(abc.ABC):
    """See module docstring. `zeroed` are the blocks that the runner would clear in this step."""

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
        self._context = KernelContext(lambda: HostBuffer(rows), groups) if config.num_spec else None
        specs = engine.kv_cache_config.kv_cache_groups
        self._copy_buffers = Stub(
            "preprocess_mamba", mamba_group_ids=groups, mamba_spec=specs[groups[0]].kv_cache_spec, offset=0
        )
        self._scalar: list[MoveRow] = []
        self._copies: list[tuple[int, int]] = []
        self.zeroed: list[int] = []
        self._runner = self.make_runner(rows)
        self._accepted_last: dict[str, int] = {}
        self._accepted_of: dict[str, int] = {}
        self._plan = StepPlan()
        self.fuses = self._context is not None and "align_ctx" in parameter_names(self._utils.preprocess_mamba)
        """Whether states move by a kernel that decides itself, and not by a list of copies made on the host."""
        self._cleanup = _original(self._utils, "cleanup_mamba_state_idx")
        self._patch()

    def _width(self, spec: Any) -> int:
        length = self.config.length_limit + self.config.num_spec + 1
        return -(-length // int(spec.block_size)) + self.config.num_spec + 1

    @abc.abstractmethod
    def make_runner(self, rows: int) -> Any:
        """The object that the release's functions use as their runner."""

    def _patch(self) -> None:
        """Intercept what the release's functions would launch; there is one rank."""
        batch = self
        runner_module, utils = self._runner_module, self._utils
        rank = types.SimpleNamespace(is_last_rank=True, is_first_rank=True, world_size=1)
        runner_module.get_pp_group = lambda: rank
        if hasattr(runner_module, "copy_kv_cache_blocks_inplace"):
            runner_module.copy_kv_cache_blocks_inplace = lambda caches, blocks, copies, *_: batch._copies.extend(
                (copy.src_block_id, copy.dst_block_id) for copy in copies
            )

        names = _parameters_of(utils.collect_mamba_copy_meta)

        def collect(*values: Any, **named: Any) -> None:
            given = {**dict(zip(names, values, strict=False)), **named}
            source, destination, bias = given["src_block_idx"], given["dest_block_idx"], given["accept_token_bias"]
            if source == destination and bias == 0:
                return
            state = given["req_state"]
            tables = tuple(state.block_ids[group] for group in given["mamba_group_ids"])
            batch._scalar.append(MoveRow(state.req_id, 0, source, destination, bias, tables))

        collect.caught = names  # type: ignore[attr-defined]
        utils.collect_mamba_copy_meta = collect
        utils.do_mamba_copy_block = lambda *_, **__: None

        def clean(output: Any, columns: dict[str, int]) -> None:
            rules = batch.rules
            if rules.forgets_columns:
                batch._cleanup(output, columns)
            else:
                for name in output.finished_req_ids:
                    columns.pop(name, None)
            if rules.column_unit is not ColumnUnit.MAMBA:  # the unit of the release's own function
                for new in output.scheduled_new_reqs:
                    columns[new.req_id] = rules.column_unit.column(
                        new.num_computed_tokens, batch.config.block_size, batch.smallest_block
                    )

        if self._cleanup is not None:
            clean.original = self._cleanup  # type: ignore[attr-defined]
            utils.cleanup_mamba_state_idx = clean

    # Accepted counts.

    def _restore_accepted(self, before: set[str], output: Any) -> None:
        started = {new.req_id for new in output.scheduled_new_reqs} | set(output.scheduled_cached_reqs.resumed_req_ids)
        for name, row in self.batch.req_id_to_index.items():
            if name not in before and name not in started and name in self._accepted_of:
                self.batch.num_accepted_tokens_cpu[row] = self._accepted_of[name]

    def _gather_accepted(self, names: list[str]) -> None:
        """The accepted counts that `_prepare_inputs` takes from the last step, which may have had other rows."""
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

    def _trust_counts(self) -> None:
        """All outputs are delivered, so the scheduler's counts are exact and need no correction."""
        for state in self._runner.requests.values():
            state.prev_num_draft_len = 0

    # Results of the runner.

    def as_layers_run(self, plan: StepPlan) -> None:
        """Run rows as layers of Mamba2 do, if the model has such; gated delta nets and KDA run them as planned."""
        if self.config.layers not in (None, "mamba2"):
            return
        longest, prefilling = self.config.num_spec + 1, self.prefilling(len(plan.rows))
        fresh_as_planned = self.config.layers is None
        run_as_mamba2(plan, self.rules, longest, prefilling, self.checkpoints, fresh_as_planned=fresh_as_planned)

    def prefilling(self, count: int) -> list[bool]:
        """Which of the `count` rows of the batch are not past their prompt, by the host's count."""
        batch = self.batch
        flags: list[bool] = (batch.num_computed_tokens_cpu[:count] < batch.num_prompt_tokens[:count]).tolist()
        return flags

    def _table(self, group: int, row: int) -> list[int]:
        table = self.batch.block_table[group]
        cells: list[int] = table.block_table.np[row, : table.num_blocks_per_row[row]].tolist()
        return cells

    def _moves(self, names: list[str]) -> list[MoveRow]:
        if not self.fuses:
            row_of = {name: i for i, name in enumerate(names)}
            return [move._replace(slot=row_of[move.request]) for move in self._scalar]
        context = self._context
        assert context is not None
        moves = []
        for i, (name, (source, destination, bias)) in enumerate(zip(names, context.passed_on(names), strict=True)):
            if source >= 0 and source != destination:
                tables = tuple(self._table(group, i) for group in self.engine.mamba_groups)
                moves.append(MoveRow(name, i, source, destination, bias, tables))
        return moves

    def _starts(self, names: list[str], moves: list[MoveRow]) -> list[StartRow]:
        """What precopy gets for every row of the batch."""
        if self.fuses and self._context is not None:
            return [StartRow(i, *row, 0, 0, 0) for i, row in enumerate(self._context.passed_on(names))]
        moved = {move.slot: StartRow(move.slot, move.source, move.destination, move.bias, 0, 0, 0) for move in moves}
        kept = self.mamba_state_idx
        return [moved.get(i, StartRow(i, -1, kept[name], 0, 0, 0, 0)) for i, name in enumerate(names)]

"""The host worker is the V2 runner's own host code, in the loop and unmodified, on a runner that has no model.

`execute_model` and `sample_tokens` are the release's own, and with them all that they call: request states, block
tables, the order and the counts of the batch, the Mamba model state. A kernel does what launches_v2.py says. What the
copy kernels and the layers get is caught: it is the plan of the step.
"""

from __future__ import annotations

import contextlib
import functools
from types import SimpleNamespace
from typing import Any

from harness.kernels.targets.base import UnknownTarget
from harness.kernels.targets.vllm.scheduling.bare import accepted
from harness.kernels.targets.vllm.scheduling.checkpoints import Checkpoints
from harness.kernels.targets.vllm.scheduling.engine import Engine
from harness.kernels.targets.vllm.scheduling.launches_v2 import can_replace_launches, replace_launches
from harness.kernels.targets.vllm.scheduling.loading import module
from harness.kernels.targets.vllm.scheduling.worker_v1 import _without_pinned_memory
from harness.oracles.meaning.plan import ForwardRow, MoveRow, PostprocessInput, StartRow, StepPlan

_GPU = "vllm.v1.worker.gpu"
_PROPOSED = 1
"""Stands for a draft token that the drafter proposed after a sampled one; 0 for any other."""


class HostWorkerV2:
    """See module docstring. `begin`, `end` and `settle` as for the V1 worker."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.config = engine, engine.config
        self.checkpoints = Checkpoints(engine)
        self.counts_land_early = True
        """Nothing hangs on it: this runner's counts never leave the device."""
        self.fuses = True
        """As for the V1 worker: states always move by a kernel."""
        self.pads_fresh_rows = True
        """A fix sets it to False: a fresh row with placeholder drafts runs as a decode, from an empty state."""
        self.runs_one_token_as_decode = True
        """Nothing: the releases that this worker drives all have the rule."""
        self.fault: str | None = None
        self.seen: set[str] = set()
        self.outcome: dict[str, tuple[int, list[int]]] = {}
        self.zeroed: list[int] = []
        self.copies: list[tuple[int, int]] = []
        self.layers = _Layers(engine)
        self.context = _Context(self)
        self._plan = StepPlan()
        self._inputs: list[PostprocessInput] = []
        self._rows: list[ForwardRow] = []
        _replace_devices()
        self.runner = _make_runner(self)
        self.states, self.model_state = self.runner.req_states, self.runner.model_state
        self.tables = [table.gpu.numpy() for table in self.runner.block_tables.block_tables]
        self.batch_tables = [table.numpy() for table in self.runner.block_tables.input_block_tables]

    # One step.

    def begin(self, output: Any) -> StepPlan:
        """From the scheduler's output to what the device runs."""
        self.zeroed.clear()
        self.copies.clear()
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
        """What the layers get: counts as the device has them, tables as they were gathered for the batch."""
        received, size = self.layers.received, self.config.block_size
        ends = received["seq_lens"].tolist()
        starts = received["query_start_loc_gpu"].tolist()
        logits = batch.cu_num_logits.tolist()
        slots = batch.idx_mapping.tolist()
        metadata = received["model_specific_attn_metadata"]
        counts, decodes = metadata.num_accepted_tokens, metadata.num_decode_draft_tokens_cpu
        accepted_counts = None if counts is None else counts.tolist()
        draft_counts = None if decodes is None else decodes.tolist()
        prefill = self.states.prefill_len.gpu.tolist()
        lengths = self.runner.block_tables.num_blocks.np.tolist()
        mamba, attention = self.engine.mamba_groups, self.engine.attention_groups
        tables = self.batch_tables
        for row, name in enumerate(batch.req_ids):
            slot, end = slots[row], ends[row]
            scheduled, drafts = starts[row + 1] - starts[row], logits[row + 1] - logits[row] - 1
            speculative = draft_counts is not None and draft_counts[row] >= 0
            if self.fault == "plain-decode-row" and drafts == 0:
                speculative = False
            offset, where = (0, -1) if speculative else self.checkpoints.of(name, end, scheduled)
            plan.rows.append(
                ForwardRow(
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

    def precopy(self, before: list[int], count: int, columns: Any, sources: Any, biases: Any, mapping: Any) -> None:
        """The launch of precopy, just after that of advance; `before` are the accepted counts that advance found."""
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

    def end(self, outcome: dict[str, tuple[int, list[int]]]) -> list[PostprocessInput]:
        """Take what the sampler accepted; what the postprocess kernel gets."""
        self.outcome = outcome
        self._inputs = []
        self.runner.sample_tokens(None)
        return self._inputs

    def postprocess(self, count: int, counts: Any, columns: Any, computed: Any, mapping: Any) -> None:
        """The launch of postprocess. What it gets is `computed` after the step; the rest follows from it."""
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

    def settle(self, outcome: dict[str, tuple[int, list[int]]], counts: dict[str, int]) -> None:
        """Keep the accepted counts that postprocess left."""
        held = self.model_state.num_accepted_tokens_gpu.numpy()
        for row in self._rows:
            kept = outcome[row.request][0] if row.samples else 1
            held[row.slot] = kept if self.fault == "accepted-not-reset" else counts[row.request]

    def forget_optimism(self) -> None:
        """Nothing: this runner corrects its counts on the device, where they are exact."""

    def has_drafts_of(self, name: str) -> bool:
        """Whether the device has drafts of a request for its next step."""
        slot = self.states.req_id_to_index.get(name)
        return slot is not None and int(self.states.draft_tokens[slot, 0]) == _PROPOSED

    # What the runner asks for.

    def sampled(self, batch: Any) -> tuple[Any, Any, Any]:
        """The sampler: as many tokens of each row as the model says, counted by the release's own function."""
        import torch

        outcome = self.outcome
        counts = torch.tensor([outcome[name][0] for name in batch.req_ids], dtype=torch.int32)
        count = len(batch.req_ids)
        counts, rejected = module(f"{_GPU}.input_batch").get_num_sampled_and_rejected(
            counts, batch.seq_lens[:count], batch.cu_num_logits, batch.idx_mapping, self.states.prefill_len.gpu
        )
        tokens = torch.zeros(count, self.config.num_spec + 1, dtype=torch.int64)
        return SimpleNamespace(sampled_token_ids=tokens, num_sampled=counts, num_rejected=rejected), counts, rejected

    def propose(self) -> Any:
        """The drafter: proposals for every row, which only mean something after a sampled token."""
        import torch

        drafts = [[_PROPOSED if row.samples else 0] * self.config.num_spec for row in self._rows]
        return torch.tensor(drafts, dtype=torch.int64)

    def seed(self, slot: int, new: Any, before: int) -> None:
        """After the release seeded a slot: planted faults. `before` is the state column that the slot had."""
        columns = self.model_state._mamba_state_idx_gpu
        if self.fault == "other-block-size":
            columns[slot] = (new.num_computed_tokens - 1) // max(self.config.block_size // 2, 1)
        elif self.fault == "kept-columns" and new.req_id in self.seen:
            columns[slot] = before
        self.seen.add(new.req_id)


class _Layers(list[Any]):
    """The attention groups of the runner: keeps what they would build their metadata from."""

    def __init__(self, engine: Engine) -> None:
        super().__init__([] for _ in engine.kv_cache_config.kv_cache_groups)
        self.received: dict[str, Any] = {}


class _Context:
    """Stands for the context of the copy kernels: hands on what they get."""

    def __init__(self, worker: HostWorkerV2) -> None:
        self._worker = worker
        self.before: list[int] = []

    def run_fused_precopy(self, *values: Any) -> None:
        self._worker.precopy(self.before, *values)

    def run_fused_postprocess_align(self, *values: Any) -> None:
        self._worker.postprocess(*values)


class _NoModel:
    """Stands for the model, which runs nothing."""

    def __init__(self) -> None:
        import torch

        self._hidden = torch.zeros(1)

    def __call__(self, **_: Any) -> Any:
        return self._hidden

    def compute_logits(self, *_: Any) -> None:
        """Nothing: whoever is handed this function asks for log probabilities, which no request does."""


class _Quiet:
    """A part of the runner that has nothing to do here: every call answers None."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _nothing


def _nothing(*_: Any, **__: Any) -> None:
    return None


@functools.cache
def host_code_runs() -> bool:
    """Whether this worker can drive the loaded release: it has the functions that are replaced, under these names.

    Tried on 0.33.0 alone: releases before it, which lack a part of the runner's construction, rest on the model.
    """
    try:
        runner, states = module(f"{_GPU}.model_runner"), module(f"{_GPU}.model_states.mamba_hybrid")
        needed = ("execute_model", "sample_tokens", "gather_batch_req_state", "prepare_inputs", "sample")
        known = all(hasattr(runner.GPUModelRunner, name) for name in needed)
        newest = hasattr(module(f"{_GPU}.ec_connector"), "NO_OP_EC_CONNECTOR")
        return known and newest and hasattr(states, "build_attn_metadata") and can_replace_launches()
    except (UnknownTarget, AttributeError):
        return False


@functools.cache
def _replace_devices() -> None:
    """Once: launches, and the few functions that would reach for layers, caches or streams."""
    replace_launches()
    _without_pinned_memory()
    runner, hybrid = module(f"{_GPU}.model_runner"), module(f"{_GPU}.model_states.mamba_hybrid")

    def build(*, attn_groups: _Layers, **given: Any) -> dict[str, Any]:
        attn_groups.received = given
        return {}

    hybrid.build_attn_metadata = build
    runner.copy_kv_cache_blocks_inplace = lambda caches, blocks, copies, *_: caches.extend(
        (copy.src_block_id, copy.dst_block_id) for copy in copies
    )
    runner.AsyncOutput = lambda **_: None
    runner.set_forward_context = lambda *_, **__: contextlib.nullcontext()


@functools.cache
def _kinds() -> tuple[Any, Any]:
    """The release's runner and model state, which say by name what they were not given."""
    runner_kind: Any = module(f"{_GPU}.model_runner").GPUModelRunner
    state_kind: Any = module(f"{_GPU}.model_states.mamba_hybrid").MambaHybridModelState

    class Runner(runner_kind):  # type: ignore[misc]
        def __init__(self, **values: Any) -> None:
            self.__dict__.update(values)

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            raise UnknownTarget(f"this release's V2 runner needs {name}, which the stand-in for it does not have")

        def gather_batch_req_state(self, *values: Any, **named: Any) -> Any:
            state, uniform = super().gather_batch_req_state(*values, **named)
            if not self.worker.pads_fresh_rows and state.prefill_runs_as_decode_np is not None:
                fresh = state.num_scheduled_tokens
                if state.num_draft_tokens_np is not None:
                    fresh = fresh - state.num_draft_tokens_np
                state = state._replace(prefill_runs_as_decode_np=state.is_prefilling_np & (fresh == 1))
            return state, uniform

        def prepare_inputs(self, *values: Any, **named: Any) -> Any:
            self.batch = super().prepare_inputs(*values, **named)
            return self.batch

        def sample(self, hidden: Any, batch: Any, grammar: Any) -> Any:
            return self.worker.sampled(batch)

    class State(state_kind):  # type: ignore[misc]
        def add_request(self, slot: int, new: Any) -> None:
            before = int(self._mamba_state_idx_gpu[slot])
            super().add_request(slot, new)
            self.worker.seed(slot, new, before)

        def preprocess_state(self, *values: Any, **named: Any) -> None:
            self._mamba_ctx.before = self.num_accepted_tokens_gpu.tolist()
            super().preprocess_state(*values, **named)

    return Runner, State


def _make_runner(worker: HostWorkerV2) -> Any:
    import torch

    engine, config = worker.engine, worker.config
    device = torch.device("cpu")
    vllm_config, groups = engine.vllm_config, engine.kv_cache_config.kv_cache_groups
    rows, length = config.requests, config.length_limit + config.num_spec + 1
    runner_kind, state_kind = _kinds()
    graphs = module(f"{_GPU}.cudagraph_utils")
    runner_module = module(f"{_GPU}.model_runner")
    none = module("vllm.config.compilation").CUDAGraphMode.NONE
    sizes = [int(group.kv_cache_spec.block_size) for group in groups]
    kind = module(f"{_GPU}.states").RequestState
    states = kind(
        **accepted(
            kind,
            {
                "max_num_reqs": rows,
                "max_model_len": length,
                "max_num_batched_tokens": config.budget,
                "num_speculative_steps": config.num_spec,
                "vocab_size": config.vocabulary + 40,
                "device": device,
                "num_prefill_lookahead": 1,
            },
        )
    )
    tables = module(f"{_GPU}.block_table").BlockTables(
        block_sizes=sizes,
        max_num_reqs=rows,
        max_num_batched_tokens=config.budget,
        max_num_blocks_per_group=[-(-length // size) + config.num_spec + 1 for size in sizes],
        device=device,
    )
    facts = {
        "dtype": torch.float32,
        "enable_prompt_embeds": False,
        "model_arch_config": SimpleNamespace(hidden_size=8, rswa_window=None),
    }
    for name, value in facts.items():
        object.__setattr__(vllm_config.model_config, name, value)
    model = SimpleNamespace()
    state = state_kind.__new__(state_kind)
    state.worker = worker
    state.__init__(vllm_config, model, None, device)
    state._mamba_ctx = worker.context

    def dispatch(requests: int, tokens: int, *_: Any, **__: Any) -> Any:
        return graphs.BatchExecutionDescriptor(cg_mode=none, num_tokens=tokens, num_reqs=requests)

    handler_kind = module(f"{_GPU}.spec_decode.utils").DraftTokensHandler
    handler = handler_kind.__new__(handler_kind)
    handler.req_ids, handler.draft_tokens_np, handler.num_draft_tokens = [], None, 0
    speculator = None
    if config.num_spec:
        speculator = SimpleNamespace(supports_mm_inputs=False, draft_logits=None)
        speculator.propose = lambda *_, **__: worker.propose()
    return runner_kind(
        worker=worker,
        batch=None,
        vllm_config=vllm_config,
        model_config=vllm_config.model_config,
        cache_config=vllm_config.cache_config,
        scheduler_config=vllm_config.scheduler_config,
        parallel_config=vllm_config.parallel_config,
        compilation_config=vllm_config.compilation_config,
        speculative_config=vllm_config.speculative_config,
        observability_config=SimpleNamespace(cudagraph_metrics=False),
        lora_config=None,
        device=device,
        max_num_reqs=rows,
        max_model_len=length,
        max_num_tokens=config.budget,
        vocab_size=config.vocabulary + 40,
        num_speculative_steps=config.num_spec,
        decode_query_len=config.num_spec + 1,
        kv_cache_config=engine.kv_cache_config,
        kv_caches=worker.copies,
        kv_block_zeroer=SimpleNamespace(zero_block_ids=worker.zeroed.extend),
        attn_groups=worker.layers,
        req_states=states,
        block_tables=tables,
        model_state=state,
        input_buffers=module(f"{_GPU}.input_batch").InputBuffers(
            max_num_reqs=rows, max_num_tokens=config.budget, device=device
        ),
        model=_NoModel(),
        speculator=speculator,
        draft_tokens_handler=handler,
        sampler=SimpleNamespace(
            add_request=_nothing,
            apply_staged_writes=_nothing,
            penalties_state=SimpleNamespace(output_bin_counts=None),
            sampling_states=SimpleNamespace(temperature=SimpleNamespace(gpu=None), seeds=SimpleNamespace(gpu=None)),
        ),
        rejection_sampler=None,
        prompt_logprobs_worker=_Quiet(),
        structured_outputs_worker=None,
        cudagraph_manager=SimpleNamespace(dispatch=dispatch),
        lora_state=runner_module.LoraState(max_num_reqs=rows),
        kv_connector=runner_module.NO_OP_KV_CONNECTOR,
        ec_connector=module(f"{_GPU}.ec_connector").NO_OP_EC_CONNECTOR,
        eplb=_Quiet(),
        step_timing=runner_module.StepTimingCollector(),
        execute_model_state=None,
        is_first_pp_rank=True,
        is_last_pp_rank=True,
        use_pp=False,
        is_encoder_decoder=False,
        supports_mm_inputs=False,
        uses_inputs_embeds=False,
        use_aux_hidden_state_outputs=False,
        check_ep_fault=False,
        dcp_size=1,
        main_stream=None,
        output_copy_stream=None,
        _draft_workspace_lane=0,
        **dict.fromkeys(
            (
                *("adaptive_verification", "aux_output_connector", "batch_sharder", "encoder_cache", "fast_prefill"),
                *("pcp_manager", "pooling_runner", "pp_handler", "ubatch_runner"),
            )
        ),
    )

"""The model of the V1 runner: its rules around the release's own functions (batch_v1.py).

The few relevant lines of `_prepare_inputs` are modelled here: which accepted counts a row gets, which rows are
speculative.
"""

from __future__ import annotations

import types
from typing import Any

from harness.case.step_plan import PlannedRow, PostprocessInput, StepPlan
from harness.kernels.targets.vllm.bare import accepted
from harness.kernels.targets.vllm.scheduling.batch_v1 import BatchV1
from harness.kernels.targets.vllm.scheduling.engine import Engine
from harness.kernels.targets.vllm.scheduling.rules import RunnerRules
from harness.kernels.targets.vllm.scheduling.runner_model import Outcome, StepTiming
from harness.kernels.targets.vllm.scheduling.stub_objects_v1 import NOTHING, HostBuffer, Stub
from harness.refusal import UnknownTarget


class RunnerModelV1(BatchV1):
    """A runner model: see module docstring."""

    def __init__(self, engine: Engine, rules: RunnerRules) -> None:
        super().__init__(engine, rules)
        self._previous_counts: list[int] = []
        self._previous_computed: list[int] = []
        self._landing: list[int] = []

    def make_runner(self, rows: int) -> Any:
        config, engine = self.config, self.engine
        model = self

        class Runner(Stub):
            def _zero_block_ids(self, blocks: list[int]) -> None:
                model.zeroed.extend(blocks)

            def _on_request_state_removed(self, *_: Any) -> None:
                """Nothing: no other state depends on a request here."""

            def _process_encoder_cache_scheduler_output(self, *_: Any) -> None:
                """Nothing: no encoder."""

            def _get_valid_sampled_token_count(self) -> list[int]:
                return model._previous_counts

        runner = Runner(
            "V1 runner",
            requests={},
            input_batch=self.batch,
            num_prompt_logprobs={},
            late_interaction_runner=NOTHING,
            encoder_cache={},
            kv_caches=[],
            kv_cache_config=engine.kv_cache_config,
            speculative_config=engine.vllm_config.speculative_config,
            is_pooling_model=False,
            uses_mrope=False,
            uses_xdrope_dim=0,
            device="cpu",
            use_async_scheduling=config.asynchronous,
            use_async_spec_decode=config.asynchronous and config.num_spec > 0,
            prev_num_draft_tokens=HostBuffer(rows),
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
        for name in ("_may_reorder_batch", "_update_streaming_request"):
            runner.__dict__[name] = types.MethodType(getattr(self._kind, name), runner)
        return runner

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
                PlannedRow(
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

    def _computed_on_device(self, names: list[str], optimistic: list[int]) -> list[int]:
        """Computed tokens by the device's count: corrected by the accepted tokens of the last step."""
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
        """Take what the sampler accepted; returns the input of the postprocess kernel. `finish_step` follows."""
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

    def finish_step(self, outcome: Outcome, counts: dict[str, int]) -> None:
        """Keep the accepted counts that postprocess left, and the sampled tokens."""
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

    def has_drafts_of(self, name: str) -> bool:
        """Whether the device has drafts of a request for its next step."""
        if not self.config.asynchronous:
            return True
        previous = self.batch.prev_req_id_to_index
        return bool(previous) and name in previous

"""Objects of a release that unit tests of reports use: its scheduler, its V1 runner without a model, and its metadata
builder of Mamba2 layers.

All are the release's own classes; what a GPU or a model would give them is replaced as in step sequences. In vLLM's own
tests, `scheduler` is what `create_scheduler` makes there, and `V1Worker` what the fixture `model_runner` is.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch

from harness.case.sequence import SequenceConfig
from harness.issues.registry import issues_of
from harness.kernels.targets.vllm.bare import accepted
from harness.kernels.targets.vllm.scheduling.engine import Engine
from harness.kernels.targets.vllm.scheduling.host_code_v1 import HostCodeV1
from harness.kernels.targets.vllm.scheduling.loading import module
from harness.kernels.targets.vllm.scheduling.rules import RunnerRules
from harness.kernels.targets.vllm.scheduling.rules_v1 import own_rules_v1
from harness.kernels.targets.vllm.scheduling.runner_model import StepTiming

MAMBA = 1
"""The KV-cache group of Mamba layers in all these configurations; group 0 is attention."""
SAMPLED = 50
"""The token that every row samples; no prompt has it."""


def all_show(checks: Iterable[Callable[[bool], None]], suggested: bool) -> None:
    """Run the checks of one issue, with the suggested rule or without: all of them have to say the same."""
    checks = tuple(checks)
    found = []
    for one in checks:
        try:
            one(suggested)
        except AssertionError as error:
            found.append(f"{one.__name__}: {error}")
    if found and len(found) < len(checks):
        raise RuntimeError(f"only some of the checks show the issue: {'; '.join(found)}")
    assert not found, "; ".join(found)


def config(**values: Any) -> SequenceConfig:
    """The configuration of an engine with 8 tokens a block; `values` change it."""
    usual: dict[str, Any] = {
        "runner": "V1",
        "block_size": 8,
        "length_limit": 256,
        "budget": 2048,
        "requests": 4,
        "num_blocks": 512,
        "vocabulary": 16,
    }
    return SequenceConfig(**{**usual, **values})


def add_request(engine: Engine, name: str, prompt: Iterable[int], outputs: int = 1) -> Any:
    """Pass a request to the scheduler."""
    return engine.add(name, list(prompt), outputs, 0, 0.0, stop=-1)


def add_request_with_items(engine: Engine, name: str, prompt: Iterable[int], items: Iterable[tuple[int, int]]) -> Any:
    """Pass a request to the scheduler whose prompt holds multimodal items: (first token, number of tokens) of each.
    Those that start at the same place are the same."""
    inputs, requests = module("vllm.multimodal.inputs"), module("vllm.v1.request")
    features = [
        inputs.MultiModalFeatureSpec(
            data=None,
            modality="image",
            identifier=f"item at {offset}",
            mm_position=inputs.PlaceholderRange(offset=offset, length=length),
        )
        for offset, length in items
    ]
    offered = {
        "request_id": name,
        "prompt_token_ids": list(prompt),
        "sampling_params": module("vllm.sampling_params").SamplingParams(max_tokens=1, temperature=0.0),
        "pooling_params": None,
        "arrival_time": 0.0,
        "block_hasher": engine.hasher,
        "mm_features": features,
    }
    request = requests.Request(**accepted(requests.Request, offered))
    engine.scheduler.add_request(request)
    return request


def give_encoder(engine: Engine, budget: int) -> None:
    """Let the scheduler encode multimodal items, as many tokens of them in a step as the budget. A model's
    configuration would say so at start."""
    engine.scheduler.max_num_encoder_input_tokens = budget
    manager = module("vllm.v1.core.encoder_cache_manager").EncoderCacheManager
    engine.scheduler.encoder_cache_manager = manager(cache_size=4096)


def switch_on(engine: Engine, name: str) -> None:
    """Change the scheduler side by the fix of a known issue."""
    (issue,) = issues_of(name)
    issue.change.engine(engine)


def deliver(engine: Engine, output: Any) -> None:
    """Give the scheduler what the model makes of a step: a token for each row that ends its request's tokens."""
    requests = engine.scheduler.requests
    counts = {
        name: int(requests[name].num_computed_tokens >= requests[name].num_tokens)
        for name in output.num_scheduled_tokens
    }
    engine.scheduler.update_from_output(output, sampled_output(counts))


def sampled_output(counts: dict[str, int]) -> Any:
    """What a runner returns where each of these requests gets that many tokens."""
    made = module("vllm.v1.outputs").ModelRunnerOutput
    offered = {
        "req_ids": list(counts),
        "req_id_to_index": {name: i for i, name in enumerate(counts)},
        "sampled_token_ids": [[SAMPLED] * count for count in counts.values()],
        "logprobs": None,
        "prompt_logprobs_dict": {},
        "pooler_output": [],
    }
    return made(**accepted(made, offered))


class Tables:
    """What workers make of a scheduler's outputs: the blocks of each request in one KV-cache group. Blocks of a running
    request are only ever appended."""

    def __init__(self, group: int) -> None:
        self._group = group
        self.blocks: dict[str, list[int]] = {}

    def update(self, output: Any) -> None:
        """Take the blocks that a step brings."""
        for new in output.scheduled_new_reqs:
            self.blocks[new.req_id] = list(new.block_ids[self._group])
        cached = output.scheduled_cached_reqs
        for name, fresh in zip(cached.req_ids, cached.new_block_ids, strict=True):
            if name in cached.resumed_req_ids:
                self.blocks[name] = []
            self.blocks[name] += fresh[self._group] if fresh else []


def computed_before(output: Any) -> dict[str, int]:
    """How many tokens of each row's request are computed when the step starts."""
    cached = output.scheduled_cached_reqs
    return {
        **{new.req_id: new.num_computed_tokens for new in output.scheduled_new_reqs},
        **dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True)),
    }


class Scheduled(NamedTuple):
    """A row of a step: how many tokens of the request are computed, and how many run. `new` is the prompt of a request
    that the worker does not know yet; `resumed` are all tokens of one that comes back after a preemption."""

    name: str
    computed: int
    tokens: int
    drafts: int = 0
    outputs: int = 0
    new: tuple[int, ...] | None = None
    resumed: tuple[int, ...] | None = None


class V1Worker:
    """The release's own V1 runner without a model. A suggested rule may take the place of one of the release's:
    `rules` changes those that step sequences know, `prefill_end` says up to which token each row of a batch prefills,
    both where the batch is sorted and where metadata are made.
    """

    def __init__(
        self,
        config: SequenceConfig,
        rules: Callable[[RunnerRules], RunnerRules] = lambda given: given,
        prefill_end: Callable[[Any], Any] | None = None,
    ) -> None:
        self.engine = Engine(config)
        self._prefill_end = prefill_end
        self.code = HostCodeV1(self.engine, rules(own_rules_v1()))
        self.runner, self.batch, self.mamba_state_idx = self.code._runner, self.code.batch, self.code.mamba_state_idx
        self._columns: dict[str, int] = {}
        self._next_block = 1
        if prefill_end is not None:
            self._sort_by(prefill_end)

    def execute(self, *rows: Scheduled, delivered: bool = False) -> dict[str, Any]:
        """`execute_model` on a step; returns what the layers get for each row, by request. `delivered`: the scheduler
        had the outputs of all earlier steps when it made this one."""
        plan = self.code.begin(self._output(rows), StepTiming(all_delivered=delivered))
        self._rows = {row.request: row for row in plan.rows}
        return self._rows

    def sample(self, **kept: int) -> None:
        """`sample_tokens`: how many tokens each row keeps, 1 if it is not named."""
        counts = {name: kept.get(name, 1) for name in self._rows}
        self.code.end({name: (count, [SAMPLED] * count) for name, count in counts.items()})
        self.code.finish_step({name: (count, []) for name, count in counts.items()}, counts)

    def mamba2_metadata(self) -> Any:
        """What the release's metadata builder of Mamba2 layers makes of the step that was executed last."""
        common, extra = self.code.received[MAMBA]
        if self._prefill_end is not None:
            rows = self.batch.num_reqs
            computed, ends = self.batch.num_computed_tokens_cpu[:rows], self._prefill_end(self.batch)[:rows]
            common = dataclasses.replace(common, is_prefilling=torch.from_numpy(computed < ends))
        builder = _builder(self.engine)
        return builder._compute_common_metadata(common, **accepted(builder._compute_common_metadata, extra))

    def _sort_by(self, prefill_end: Callable[[Any], Any]) -> None:
        """Let the release's own function that sorts the batch read `prefill_end` in place of the prompt's length."""
        backends, batch = module("vllm.v1.attention.backends.utils"), self.batch

        class Sorted:
            def __init__(self) -> None:
                self.num_prompt_tokens = prefill_end(batch)

            def __getattr__(self, name: str) -> Any:
                return getattr(batch, name)

        def reorder(output: Any) -> None:
            backends.reorder_batch_to_split_decodes_and_prefills(
                Sorted(), output, decode_threshold=self.runner.reorder_batch_threshold
            )

        self.runner.__dict__["_may_reorder_batch"] = reorder

    def _output(self, rows: tuple[Scheduled, ...]) -> Any:
        kinds = module("vllm.v1.core.sched.output")
        new = [self._new(kinds.NewRequestData, row) for row in rows if row.new is not None]
        known = [row for row in rows if row.new is None]
        cached = kinds.CachedRequestData(
            req_ids=[row.name for row in known],
            resumed_req_ids={row.name for row in known if row.resumed is not None},
            new_token_ids=[],
            all_token_ids={row.name: list(row.resumed) for row in known if row.resumed is not None},
            new_block_ids=[self._blocks(row) for row in known],
            num_computed_tokens=[row.computed for row in known],
            num_output_tokens=[row.outputs for row in known],
        )
        output = kinds.SchedulerOutput.make_empty()
        return dataclasses.replace(
            output,
            scheduled_new_reqs=new,
            scheduled_cached_reqs=cached,
            num_scheduled_tokens={row.name: row.tokens for row in rows},
            total_num_scheduled_tokens=sum(row.tokens for row in rows),
            scheduled_spec_decode_tokens={row.name: [-1] * row.drafts for row in rows if row.drafts},
            num_common_prefix_blocks=[0] * len(self.engine.kv_cache_config.kv_cache_groups),
        )

    def _new(self, kind: Any, row: Scheduled) -> Any:
        offered = {
            "req_id": row.name,
            "prompt_token_ids": list(row.new or ()),
            "mm_features": [],
            "sampling_params": module("vllm.sampling_params").SamplingParams(temperature=0.0),
            "pooling_params": None,
            "block_ids": self._blocks(row),
            "num_computed_tokens": row.computed,
            "lora_request": None,
        }
        return kind(**accepted(kind, offered))

    def _blocks(self, row: Scheduled) -> tuple[list[int], ...] | None:
        """Blocks that the step adds to the request's tables: never used ones, as many as its tokens need."""
        size, drafts = self.engine.config.block_size, self.engine.config.num_spec
        had = 0 if row.new is not None or row.resumed is not None else self._columns[row.name]
        needed = -(-(row.computed + row.tokens) // size) + drafts
        self._columns[row.name] = max(had, needed)
        if needed <= had:
            return None
        groups = range(len(self.engine.kv_cache_config.kv_cache_groups))
        made = []
        for _ in groups:
            made.append(list(range(self._next_block, self._next_block + needed - had)))
            self._next_block += needed - had
        return tuple(made)


class EarlierRank(V1Worker):
    """The same runner as a rank of pipeline parallelism that is not the last: the scheduler sends the tokens that a
    step runs, drafts apart, and the next rank gets what this one's layers make."""

    def execute(self, *rows: Scheduled, delivered: bool = False) -> dict[str, Any]:
        """`execute_model`, then `sample_tokens`; returns the accepted count of each row as layers get it."""
        runner_module = module("vllm.v1.worker.gpu_model_runner")
        rank = types.SimpleNamespace(is_last_rank=False, is_first_rank=True, world_size=2)
        runner_module.get_pp_group = lambda: rank
        self.runner.hidden = module("vllm.sequence").IntermediateTensors({})
        self.code.received.clear()
        output = self._output(rows)
        output.scheduled_cached_reqs.new_token_ids = [
            [SAMPLED] * (row.tokens - row.drafts) for row in rows if row.new is None
        ]
        made = self.runner.execute_model(output)
        assert made is self.runner.hidden, "this rank does more than to pass on what its layers make"
        self.runner.sample_tokens(None)
        _, extra = self.code.received[MAMBA]
        counts = extra.get("num_accepted_tokens")
        if counts is None:
            return {}
        return dict(zip(self.batch.req_ids, counts.tolist(), strict=False))


def _builder(engine: Engine) -> Any:
    """The release's metadata builder of Mamba2 layers, with what its constructor would take from a model."""
    kind = module("vllm.v1.attention.backends.mamba2_attn").Mamba2AttentionMetadataBuilder
    drafts = engine.config.num_spec

    class Builder(kind):  # type: ignore[misc]
        needs_causal_conv1d_metadata = False

        def __init__(self) -> None:
            self.kv_cache_spec = engine.kv_cache_config.kv_cache_groups[MAMBA].kv_cache_spec
            self.vllm_config = engine.vllm_config
            self.num_spec_tokens = drafts
            self.use_spec_decode = drafts > 0
            self.reorder_batch_threshold = 1 + drafts
            self.use_replayssm = self.use_flashinfer_replayssm = False
            self.decode_bc_pre_scratch = None

        def _update_metadata_for_cudagraph_capture(self, metadata: Any) -> Any:
            """Graphs are off."""
            return metadata

    return Builder()

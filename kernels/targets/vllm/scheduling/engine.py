"""An engine is the scheduler side of a release, built from a sequence's configuration, without model or workers.

Scheduler, block manager and requests are production code. Only two things are made here: the configuration, in
unvalidated instances whose properties are the release's own, and the KV-cache groups: one of attention, some of Mamba,
perhaps one of a drafter.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from harness.case.sequence import Pause, SequenceConfig, SpecMethod
from harness.kernels.targets.vllm.bare import accepted, bare, parameter_names, source_of
from harness.kernels.targets.vllm.scheduling.core import EngineCore
from harness.kernels.targets.vllm.scheduling.loading import module
from harness.kernels.targets.vllm.scheduling.runner_model import Outcome
from harness.text import one_line

V2_VARIABLE = "VLLM_USE_V2_MODEL_RUNNER"

_METHODS = {"ngram": "ngram", "draft_model": "draft_model", "mtp": "mtp", "eagle": "eagle", "dflash": "dflash"}


_TEXT_MODEL = {
    "architecture": "a hybrid model",
    "uses_mrope": False,
    "is_encoder_decoder": False,
    "is_diffusion": False,
    "is_hybrid": True,
    "is_multimodal_model": False,
    "supports_multimodal_inputs": False,
    "is_attention_free": False,
    "return_sampling_mask": False,
}
"""Values that a model's configuration derives from the model: here, of a text-only hybrid."""


class ReleaseLacks(Exception):
    """The release does not have such a feature; the message names it. A skip, not a failure."""


class Frame(NamedTuple):
    """One step that was run and whose outputs are not yet delivered: what was scheduled, the runner's output in the
    scheduler's format, and the sampler's result."""

    scheduled: Any
    output: Any
    outcome: Outcome

    def has_tokens_of(self, name: str) -> bool:
        """Whether a request gets tokens from it."""
        return name in self.outcome and bool(self.outcome[name][1])


class Engine:
    """One engine of the loaded release. `in_flight` are its undelivered steps, oldest first; `discard` is called when
    it gives up the memory of its KV cache.

    Raises ReleaseLacks if the configuration needs a feature that the release lacks, or if the release refuses it by an
    assertion, a ValueError or its own exit when an engine starts.
    """

    def __init__(self, config: SequenceConfig, discard: Callable[[], None] = lambda: None) -> None:
        self.config = config
        self.in_flight: deque[Frame] = deque()
        self.interface = module("vllm.v1.kv_cache_interface")
        self.utils = module("vllm.v1.core.kv_cache_utils")
        self._configs = module("vllm.config")
        self._requests = module("vllm.v1.request")
        self._sampling = module("vllm.sampling_params")
        os.environ[V2_VARIABLE] = "1" if config.runner == "V2" else "0"
        self.mamba_groups = tuple(range(1, 1 + config.mamba_groups))
        self.attention_groups = (0,) if config.drafter_block_size is None else (0, 1 + config.mamba_groups)
        self.vllm_config = self._make_config()
        self.kv_cache_config = self._make_groups()
        try:
            # Some drafters take slots of the budget, up to 0.27 for as many requests as there may be.
            self.vllm_config._set_max_num_scheduled_tokens()
            self.scheduler_block_size, self.hash_block_size = self._block_sizes()
            self.scheduler = self._make_scheduler()
        except (AssertionError, ValueError, NotImplementedError, SystemExit) as error:
            if not _is_production(error):
                raise
            raise ReleaseLacks(f"the release refuses to start: {_without_numbers(error)}") from error
        self.manager = self.scheduler.kv_cache_manager
        self.pool = self.manager.block_pool
        self.hasher = self._make_hasher()
        self.core = EngineCore(self.scheduler, self.in_flight, config.asynchronous, discard)

    def delivers_early(self) -> bool:
        """Whether this release's asynchronous engine core may deliver outputs before it schedules the next step."""
        return ".done()" in source_of(module("vllm.v1.engine.core").EngineCore.step_with_batch_queue)

    # Configuration.

    def _make_config(self) -> Any:
        config, configs = self.config, self._configs
        hybrid = hybrid_model(config.length_limit)
        speculative = None
        if config.num_spec:
            speculative = speculative_of(config.spec_method, config.num_spec, config.length_limit)
        cache = bare(
            configs.CacheConfig,
            block_size=config.block_size,
            mamba_block_size=config.block_size,
            mamba_cache_mode="align",
            enable_prefix_caching=True,
            num_gpu_blocks=config.num_blocks,
            prefix_match_unit=config.match_unit,
            prefix_cache_retention_interval=config.retention,
            enable_mamba_shared_prefix_checkpoint=config.shared_prefix_checkpoint,
        )
        if config.retention is not None and not _has_field(configs.CacheConfig, "prefix_cache_retention_interval"):
            raise ReleaseLacks("no retention interval: all prefix states are kept")
        if config.match_unit is not None and not _has_field(configs.CacheConfig, "prefix_match_unit"):
            raise ReleaseLacks("no partial prefix hits")
        if config.shared_prefix_checkpoint and not _has_field(
            configs.CacheConfig, "enable_mamba_shared_prefix_checkpoint"
        ):
            raise ReleaseLacks("no checkpoints at shared prefixes")
        scheduling = bare(
            configs.SchedulerConfig,
            max_num_batched_tokens=config.budget,
            max_num_scheduled_tokens=None,
            max_num_seqs=config.requests,
            max_model_len=config.length_limit,
            long_prefill_token_threshold=config.prefill_threshold,
            enable_chunked_prefill=True,
            async_scheduling=config.asynchronous,
            policy=config.policy,
            is_encoder_decoder=False,
            runner_type="generate",
        )
        return bare(
            configs.VllmConfig,
            model_config=hybrid,
            cache_config=cache,
            scheduler_config=scheduling,
            parallel_config=bare(configs.ParallelConfig, rank=0, data_parallel_index=0),
            speculative_config=speculative,
            lora_config=None,
            kv_transfer_config=None,
            ec_transfer_config=None,
            kv_events_config=None,
            load_config=None,
            compilation_config=_Plain(static_forward_context={}),
            structured_outputs_config=None,
        )

    def _make_groups(self) -> Any:
        import torch

        config, interface = self.config, self.interface
        attention = bare_spec(
            interface.FullAttentionSpec,
            block_size=config.block_size,
            num_kv_heads=1,
            head_size=8,
            dtype=torch.bfloat16,
            use_mla=False,
        )
        checkpoint: dict[str, Any] = {}
        if config.checkpoint_alignment is not None:
            if not _has_field(interface.MambaSpec, "prefill_checkpoint_alignment"):
                raise ReleaseLacks("no checkpoints inside a prefill")
            checkpoint = {
                "num_prefill_checkpoint_blocks": 1,
                "prefill_checkpoint_alignment": config.checkpoint_alignment,
            }
        mamba = bare_spec(
            interface.MambaSpec,
            block_size=config.block_size,
            shapes=((config.kernel - 1 + config.num_spec, 4), (2, 4)),
            dtypes=(torch.bfloat16, torch.float32),
            mamba_cache_mode="align",
            num_speculative_blocks=config.num_spec,
            **checkpoint,
        )
        group = interface.KVCacheGroupSpec
        groups = [group(["attention"], attention)]
        groups += [group([f"mamba.{i}"], mamba) for i in range(config.mamba_groups)]
        if config.drafter_block_size is not None:
            drafter = bare_spec(
                interface.FullAttentionSpec,
                block_size=config.drafter_block_size,
                num_kv_heads=1,
                head_size=8,
                dtype=torch.bfloat16,
                use_mla=False,
                is_draft=True,
            )
            groups.append(group(["drafter"], drafter))
        speculative = self.vllm_config.speculative_config
        drops = getattr(speculative, "use_eagle_block_drop", None) or getattr(speculative, "use_eagle", None)
        if speculative is not None and drops is not None and drops() and hasattr(groups[0], "is_eagle_group"):
            # A draft layer without a separate group is in the main attention group.
            object.__setattr__(groups[-1 if config.drafter_block_size else 0], "is_eagle_group", True)
        offered = {
            "num_blocks": config.num_blocks,
            "kv_cache_tensors": [],
            "kv_cache_groups": groups,
            "prefix_cache_retention_interval": config.retention,
        }
        return interface.KVCacheConfig(**accepted(interface.KVCacheConfig, offered))

    def _block_sizes(self) -> tuple[int, int]:
        groups = self.kv_cache_config.kv_cache_groups
        self.vllm_config.cache_config.block_size = min(group.kv_cache_spec.block_size for group in groups)
        self.vllm_config.validate_block_size()  # up to 0.26 budget and threshold must be at least a block
        resolve = getattr(self.utils, "resolve_kv_cache_block_sizes", None)
        if resolve is None:
            return self.config.block_size, self.vllm_config.cache_config.block_size
        sizes = resolve(self.kv_cache_config, self.vllm_config)
        hits = getattr(self.utils, "resolve_cache_hit_alignment_tokens", None)
        self.hit_alignment = sizes[0]
        if hits is not None:
            self.hit_alignment = hits(self.kv_cache_config, self.vllm_config, *sizes)
        for holder in (self.kv_cache_config, self.vllm_config.cache_config):
            for name, value in (("hash_block_size", sizes[1]), ("cache_hit_alignment_tokens", self.hit_alignment)):
                if hasattr(holder, name) or _has_field(type(holder), name):
                    object.__setattr__(holder, name, value)
        return int(sizes[0]), int(sizes[1])

    def _make_scheduler(self) -> Any:
        name = ("async_scheduler", "AsyncScheduler") if self.config.asynchronous else ("scheduler", "Scheduler")
        kind = getattr(module(f"vllm.v1.core.sched.{name[0]}"), name[1])
        offered = {
            "vllm_config": self.vllm_config,
            "kv_cache_config": self.kv_cache_config,
            "structured_output_manager": _NoGrammar(),
            "block_size": self.scheduler_block_size,
            "hash_block_size": self.hash_block_size,
            "log_stats": False,
        }
        return kind(**accepted(kind, offered))

    def _make_hasher(self) -> Callable[[Any], Any]:
        hashing = module("vllm.utils.hashing")
        function = hashing.get_hash_fn_by_name("sha256")
        self.utils.init_none_hash(function)
        lookahead = getattr(self.scheduler, "num_hash_lookahead_tokens", 0)
        offered = {"num_hash_lookahead_tokens": lookahead}
        make = self.utils.get_request_block_hasher
        hasher: Callable[[Any], Any] = make(self.hash_block_size, function, **accepted(make, offered))
        return hasher

    # Requests.

    def add(
        self,
        name: str,
        tokens: list[int],
        outputs: int,
        priority: int,
        arrival: float,
        stop: int,
        resumable: bool = False,
    ) -> Any:
        """Pass a request to the scheduler; `stop` is the token that ends it. Of a resumable one that the scheduler has
        it is the next chunk of input, and one that is not resumable says that no more comes.

        Raises ReleaseLacks if the release has no streaming input.
        """
        sampling = self._sampling.SamplingParams(max_tokens=outputs, temperature=0.0, stop_token_ids=[stop])
        kind = self._requests.Request
        if resumable and not streams_input():
            raise ReleaseLacks("no streaming input")
        offered = {
            "request_id": name,
            "resumable": resumable,
            "prompt_token_ids": list(tokens),
            "sampling_params": sampling,
            "pooling_params": None,
            "eos_token_id": None,
            "arrival_time": arrival,
            "priority": priority,
            "block_hasher": self.hasher,
        }
        request = kind(**accepted(kind, offered))
        self.scheduler.add_request(request)
        return request

    def before_turns(self, act: Callable[[Any], None]) -> None:
        """Call `act` with a resumable request before the scheduler starts its next turn, and before what fixes of known
        issues do there."""
        scheduler = self.scheduler
        update = scheduler._update_request_as_session

        def acting(session: Any, *arguments: Any, **named: Any) -> None:
            act(session)
            update(session, *arguments, **named)

        scheduler._update_request_as_session = acting

    def abort(self, name: str) -> None:
        """Abort a request: its client is gone."""
        self.scheduler.finish_requests(name, self._requests.RequestStatus.FINISHED_ABORTED)

    def reset(self, running: bool) -> bool:
        """Clear the prefix cache, forcing it if `running`. Returns whether it was cleared."""
        reset = self.scheduler.reset_prefix_cache
        if running and "reset_running_requests" in parameter_names(type(self.scheduler).reset_prefix_cache):
            return bool(reset(reset_running_requests=True))
        return bool(reset())

    def pause(self, event: Pause) -> None:
        """Pause, or sleep."""
        if event.mode in ("all", "new"):
            states = module("vllm.v1.core.sched.interface").PauseState
            self.scheduler.set_pause_state(states.PAUSED_ALL if event.mode == "all" else states.PAUSED_NEW)
        else:
            self.core.pause(event)

    def entries(self) -> Iterator[tuple[bytes, int]]:
        """Everything registered in the prefix cache: (key, block)."""
        held = self.pool.cached_block_hash_to_block
        held = getattr(held, "_cache", held)
        for key, value in held.items():
            if isinstance(value, dict):
                for block in value:
                    yield key, block
            else:
                yield key, value.block_id

    @staticmethod
    def group_and_hash(key: bytes) -> tuple[int, bytes]:
        """The parts of an entry's key: a KV-cache group and the hash of a prefix."""
        return int.from_bytes(key[-4:], "big"), key[:-4]


def streams_input() -> bool:
    """Whether the loaded release has resumable requests."""
    return "resumable" in parameter_names(module("vllm.v1.request").Request.__init__)


def hybrid_model(length: int) -> Any:
    """The configuration of a text-only hybrid model whose requests have at most `length` tokens."""
    return bare(
        _hybrid(module("vllm.config").ModelConfig),
        max_model_len=length,
        runner_type="generate",
        multimodal_config=None,
        hf_config=_Plain(),
        hf_text_config=_Plain(),
        model="a hybrid model",
    )


def speculative_of(method: SpecMethod, num_spec: int, length: int) -> Any:
    """The configuration of a drafter that proposes `num_spec` tokens."""
    draft = _Plain(max_model_len=length, hf_config=_Plain(model_type="draft", architectures=[]), architectures=[])
    return bare(
        module("vllm.config").SpeculativeConfig,
        method=_METHODS[method],
        num_speculative_tokens=num_spec,
        draft_model_config=draft,
        parallel_drafting=method == "dflash",
        disable_padded_drafter_batch=False,
        model="a drafter",
    )


@functools.cache
def _hybrid(kind: type) -> type:
    """The release's class of model configurations, with the values of a hybrid model."""
    return type("HybridModelConfig", (kind,), dict(_TEXT_MODEL))


class _Plain:
    """An object with the given attributes."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


class _NoGrammar:
    """Takes the place of the manager of structured output, which no request here uses."""

    def accept_tokens(self, *_: Any, **__: Any) -> bool:
        return True

    def validate_tokens(self, request: Any, tokens: list[int], *_: Any, **__: Any) -> list[int]:
        return tokens

    def should_advance(self, *_: Any, **__: Any) -> bool:
        return False

    def grammar_bitmask(self, *_: Any, **__: Any) -> None:
        return None


def bare_spec(kind: Any, **values: Any) -> Any:
    """A KV-cache spec, made by its own constructor from those values that it has a field for."""
    return kind(**accepted(kind, values))


def _is_production(error: BaseException) -> bool:
    """Whether code of the release raised it."""
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    return step is not None and str(step.tb_frame.f_globals.get("__name__", "")).startswith("vllm.")


def _without_numbers(error: BaseException) -> str:
    """The message of an error, without sizes, so that equal reasons count as one."""
    message = one_line(error)
    if not message or isinstance(error, SystemExit):  # an exit has only its status
        message = f"{type(error).__name__} in {_place(error)}"
    return re.sub(r"\d+(, \d+)*", "N", message)[:200]


def _place(error: BaseException) -> str:
    """The function of the release that raised it, and the text of the line: an assertion may have no message."""
    step = traceback.extract_tb(error.__traceback__)[-1]
    return f"{step.name}: {step.line}"


def _has_field(kind: type, name: str) -> bool:
    return name in {field.name for field in dataclasses.fields(kind)}

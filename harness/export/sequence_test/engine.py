"""The scheduler of the vLLM under test, made of its own classes without a model.

Configurations are instances of its own classes with their defaults, which are not validated: that would need a model.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
import sys
from typing import Any

from harness.export.sequence_test.sequence import STOP, Add, Settings

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("PYTHONHASHSEED", "0")  # block hashes begin with a random number otherwise
if os.environ.get("VLLM_SOURCES"):
    sys.path.insert(0, os.environ["VLLM_SOURCES"])


def module(name: str) -> Any:
    return importlib.import_module(f"vllm.{name}")


def accepted(function: Any, offered: dict[str, Any]) -> dict[str, Any]:
    """Those arguments that a function, or the constructor of a class or of a base of it, has a parameter for."""
    names: set[str] = set()
    for kind in function.__mro__ if isinstance(function, type) else (function,):
        target = kind.__dict__.get("__init__") if isinstance(kind, type) else kind
        if inspect.isfunction(target) or inspect.ismethod(target):
            names.update(inspect.signature(target).parameters)
    return {name: value for name, value in offered.items() if name in names}


def make(function: Any, **offered: Any) -> Any:
    return function(**accepted(function, offered))


def bare(kind: Any, **values: Any) -> Any:
    """An instance with the defaults of its fields, then `values`, and no validation."""
    instance = object.__new__(kind)
    for field in dataclasses.fields(kind):
        default, factory = field.default, field.default_factory
        if type(default).__name__ == "FieldInfo":  # pydantic's wrapper
            factory = getattr(default, "default_factory", None) or dataclasses.MISSING
            default = getattr(default, "default", dataclasses.MISSING)
        if default is not dataclasses.MISSING and type(default).__name__ != "PydanticUndefinedType":
            object.__setattr__(instance, field.name, default)
        elif factory is not dataclasses.MISSING and field.name not in values:
            try:
                object.__setattr__(instance, field.name, factory())
            except Exception:  # it needs a model: whoever reads it fails with its name
                continue
    for name, value in values.items():
        object.__setattr__(instance, name, value)
    return instance


class Plain:
    """An object with the given attributes."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


class NoGrammar:
    """Takes the place of the manager of structured output."""

    def validate_tokens(self, request: Any, tokens: list[int], *_: Any, **__: Any) -> list[int]:
        return tokens

    def accept_tokens(self, *_: Any, **__: Any) -> bool:
        return True

    def should_advance(self, *_: Any, **__: Any) -> bool:
        return False

    def grammar_bitmask(self, *_: Any, **__: Any) -> None:
        return None


HYBRID = {
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
"""What a model's configuration says of a text-only hybrid model."""


class Engine:
    """The scheduler, with what belongs to it."""

    def __init__(self, settings: Settings) -> None:
        os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "1" if settings.runner == "V2" else "0"
        self.settings = settings
        self.utils = module("v1.core.kv_cache_utils")
        self.mamba = tuple(range(1, 1 + settings.mamba_groups))
        self.attention = (0,) if settings.drafter_block_size is None else (0, 1 + settings.mamba_groups)
        self.config = self._make_config()
        self.groups = self._make_groups()
        sizes = self._block_sizes()
        self.hash_block_size = sizes[1]
        kind = module("v1.core.sched.async_scheduler").AsyncScheduler if settings.asynchronous else None
        self.scheduler = make(
            kind or module("v1.core.sched.scheduler").Scheduler,
            vllm_config=self.config,
            kv_cache_config=self.groups,
            structured_output_manager=NoGrammar(),
            block_size=sizes[0],
            hash_block_size=sizes[1],
            log_stats=False,
        )
        self.pool = self.scheduler.kv_cache_manager.block_pool
        function = module("utils.hashing").get_hash_fn_by_name("sha256")
        self.utils.init_none_hash(function)
        self.lookahead = getattr(self.scheduler, "num_hash_lookahead_tokens", 0)
        hasher, more = self.utils.get_request_block_hasher, {"num_hash_lookahead_tokens": self.lookahead}
        self.hasher = hasher(sizes[1], function, **accepted(hasher, more))

    def _make_config(self) -> Any:
        settings, configs = self.settings, module("config")
        model = bare(
            type("HybridModelConfig", (configs.ModelConfig,), dict(HYBRID)),
            max_model_len=settings.length_limit,
            runner_type="generate",
            multimodal_config=None,
            hf_config=Plain(),
            hf_text_config=Plain(),
            model="a hybrid model",
        )
        speculative = None
        if settings.num_spec:
            draft = Plain(max_model_len=settings.length_limit, hf_config=Plain(model_type="draft", architectures=[]))
            draft.__dict__["architectures"] = []
            speculative = bare(
                configs.SpeculativeConfig,
                method=settings.spec_method,
                num_speculative_tokens=settings.num_spec,
                draft_model_config=draft,
                parallel_drafting=settings.spec_method == "dflash",
                disable_padded_drafter_batch=False,
                model="a drafter",
            )
        return bare(
            configs.VllmConfig,
            model_config=model,
            cache_config=bare(
                configs.CacheConfig,
                block_size=settings.block_size,
                mamba_block_size=settings.block_size,
                mamba_cache_mode="align",
                enable_prefix_caching=True,
                num_gpu_blocks=settings.num_blocks,
                prefix_match_unit=settings.match_unit,
                prefix_cache_retention_interval=settings.retention,
                enable_mamba_shared_prefix_checkpoint=settings.shared_prefix_checkpoint,
            ),
            scheduler_config=bare(
                configs.SchedulerConfig,
                max_num_batched_tokens=settings.budget,
                max_num_scheduled_tokens=None,
                max_num_seqs=settings.requests,
                max_model_len=settings.length_limit,
                long_prefill_token_threshold=settings.prefill_threshold,
                enable_chunked_prefill=True,
                async_scheduling=settings.asynchronous,
                policy=settings.policy,
                is_encoder_decoder=False,
                runner_type="generate",
            ),
            parallel_config=bare(configs.ParallelConfig, rank=0, data_parallel_index=0),
            speculative_config=speculative,
            lora_config=None,
            kv_transfer_config=None,
            ec_transfer_config=None,
            kv_events_config=None,
            load_config=None,
            compilation_config=Plain(static_forward_context={}),
            structured_outputs_config=None,
        )

    def _make_groups(self) -> Any:
        import torch

        settings, interface = self.settings, module("v1.kv_cache_interface")
        heads = {"num_kv_heads": 1, "head_size": 8, "dtype": torch.bfloat16, "use_mla": False}
        attention = make(interface.FullAttentionSpec, block_size=settings.block_size, **heads)
        exports = {}
        if settings.checkpoint_alignment is not None:
            alignment = settings.checkpoint_alignment
            exports = {"num_prefill_checkpoint_blocks": 1, "prefill_checkpoint_alignment": alignment}
        mamba = make(
            interface.MambaSpec,
            block_size=settings.block_size,
            shapes=((3 + settings.num_spec, 4), (2, 4)),
            dtypes=(torch.bfloat16, torch.float32),
            mamba_cache_mode="align",
            num_speculative_blocks=settings.num_spec,
            **exports,
        )
        group = interface.KVCacheGroupSpec
        groups = [group(["attention"], attention), *(group([f"mamba.{n}"], mamba) for n in self.mamba)]
        if settings.drafter_block_size is not None:
            spec = interface.FullAttentionSpec
            groups.append(
                group(["drafter"], make(spec, block_size=settings.drafter_block_size, is_draft=True, **heads))
            )
        if self.drops_last_block() and hasattr(groups[0], "is_eagle_group"):
            object.__setattr__(groups[-1 if settings.drafter_block_size else 0], "is_eagle_group", True)
        return make(
            interface.KVCacheConfig,
            num_blocks=settings.num_blocks,
            kv_cache_tensors=[],
            kv_cache_groups=groups,
            prefix_cache_retention_interval=settings.retention,
        )

    def drops_last_block(self) -> bool:
        """Whether hits end a block early, for drafters that look one token ahead."""
        speculative = self.config.speculative_config
        drops = getattr(speculative, "use_eagle_block_drop", None) or getattr(speculative, "use_eagle", None)
        return speculative is not None and drops is not None and bool(drops())

    def _block_sizes(self) -> tuple[int, int]:
        """The blocks by which the scheduler counts, and those of hashes."""
        cache = self.config.cache_config
        cache.block_size = min(group.kv_cache_spec.block_size for group in self.groups.kv_cache_groups)
        self.config.validate_block_size()
        resolve = getattr(self.utils, "resolve_kv_cache_block_sizes", None)
        if resolve is None:
            return self.settings.block_size, cache.block_size
        sizes: tuple[int, int] = resolve(self.groups, self.config)
        align = getattr(self.utils, "resolve_cache_hit_alignment_tokens", None)
        self.hit_alignment = sizes[0] if align is None else align(self.groups, self.config, *sizes)
        for holder in (self.groups, cache):
            for name, value in (("hash_block_size", sizes[1]), ("cache_hit_alignment_tokens", self.hit_alignment)):
                if hasattr(holder, name) or name in {field.name for field in dataclasses.fields(holder)}:
                    object.__setattr__(holder, name, value)
        return sizes

    def add(self, event: Add, arrival: float) -> Any:
        sampling = module("sampling_params").SamplingParams(
            max_tokens=event.outputs, temperature=0.0, stop_token_ids=[STOP]
        )
        request = make(
            module("v1.request").Request,
            request_id=event.name,
            prompt_token_ids=event.text[: event.prompt],
            sampling_params=sampling,
            pooling_params=None,
            eos_token_id=None,
            arrival_time=arrival,
            priority=event.priority,
            block_hasher=self.hasher,
        )
        self.scheduler.add_request(request)
        return request

    def entries(self) -> list[tuple[int, bytes, int]]:
        """What is registered in the prefix cache: KV-cache group, hash of a prefix, block."""
        held = self.pool.cached_block_hash_to_block
        held = getattr(held, "_cache", held)
        found = []
        for key, value in held.items():
            for block in value if isinstance(value, dict) else (value.block_id,):
                found.append((int.from_bytes(key[-4:], "big"), key[:-4], block))
        return found

"""One engine of the release: its own core, scheduler, block manager, worker, V1 runner and layers, driven step by step.

Several engines may live in one process. The model's weights come from a checkpoint (`tiny_model.py`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import torch

from harness.case.step_row import StepRow
from harness.end_to_end.inside.device_tokens import DeviceTokens
from harness.end_to_end.inside.fused_kernels import FusedKernels
from harness.end_to_end.inside.overruling import overrule
from harness.end_to_end.inside.scripted_core import scripted_core
from harness.end_to_end.inside.tiny_model import STOP
from harness.end_to_end.messages import EngineFacts, EngineOptions
from harness.kernels.executors.base import AccessSpan


class RunningEngine:
    """An engine. Raises what the release raises when it refuses to start."""

    def __init__(self, options: EngineOptions, model: str, kernels: FusedKernels | None) -> None:
        from vllm.engine.arg_utils import EngineArgs
        from vllm.v1.executor.abstract import Executor

        self.options = options
        arguments = _arguments(options, model)
        known = set(EngineArgs.__dataclass_fields__)
        unknown = [name for name, value in arguments.items() if name not in known and value is not None]
        if unknown:
            raise ValueError(f"the release has no option {unknown[0]}")
        config = EngineArgs(
            **{name: value for name, value in arguments.items() if name in known}
        ).create_engine_config()
        overrule(config, options)
        self.core: Any = scripted_core()(config, Executor.get_class(config), log_stats=False)
        worker = self.core.model_executor.driver_worker
        self.runner: Any = getattr(worker, "worker", worker).model_runner
        self.runner.scripted_engine = self
        self._arrivals = 0.0
        self.drafts: Any = None
        self.device_tokens = DeviceTokens()
        self.recorded: list[list[StepRow]] | None = None
        """What each step gives its rows, where that is asked for."""
        self.stops: set[str] = set()
        """Requests whose next token is to be the one that ends them."""
        self.stopping: dict[str, int] = {}
        """Of an asynchronous engine, requests that the step sampled last ends, and at which of their tokens."""
        drafter = getattr(self.runner, "drafter", None)
        if drafter is not None:
            drafter.scripted_engine = self
        self._kernels = kernels
        self._caches = list(self.cache_tensors())
        self._places: list[int] = []
        self._memory: tuple[AccessSpan, ...] = ()

    @property
    def scheduler(self) -> Any:
        return self.core.scheduler

    @property
    def groups(self) -> Any:
        """The groups of the KV cache, in the order of the runner's block tables."""
        return self.runner.kv_cache_config.kv_cache_groups

    def watch_kernels(self) -> None:
        """Let kernels touch this engine's memory, and no other's."""
        if self._kernels is None:
            return
        tables = [table.block_table.gpu for table in self.runner.input_batch.block_table.block_tables]
        places = [tensor.data_ptr() for tensor in (*tables, *self._caches)]
        if places != self._places:  # a runner may get another batch, with other tables
            self._places, self._memory = places, self._kernels.memory(tables, self._caches)
        self._kernels.begin(self._memory)

    def cache_tensors(self) -> Iterator[torch.Tensor]:
        """The tensors in which states and attention's keys and values are."""
        for layer in self.layers().values():
            yield from layer

    def layers(self) -> dict[str, list[torch.Tensor]]:
        """Those tensors by layer."""
        context = self.runner.compilation_config.static_forward_context
        found: dict[str, list[torch.Tensor]] = {}
        for name, layer in context.items():
            held = getattr(layer, "kv_cache", None)
            if isinstance(held, torch.Tensor):
                held = [held]
            if held is not None and held:
                found[name] = [tensor for tensor in held if isinstance(tensor, torch.Tensor)]
        return found

    def facts(self) -> EngineFacts:
        """What the engine turned out to be."""
        import vllm

        groups, alignment, window = [], None, 0
        for group in self.scheduler.kv_cache_config.kv_cache_groups:
            spec = group.kv_cache_spec
            mamba = hasattr(spec, "mamba_type")
            groups.append(("mamba" if mamba else "attention", int(spec.block_size)))
            if mamba:
                if getattr(spec, "num_prefill_checkpoint_blocks", 0):
                    alignment = int(spec.prefill_checkpoint_alignment)
                window = int(spec.shapes[0][0]) - int(spec.num_speculative_blocks) + 1
        cache = self.core.vllm_config.cache_config
        return EngineFacts(
            version=vllm.__version__,
            groups=tuple(groups),
            num_blocks=int(self.scheduler.kv_cache_config.num_blocks),
            checkpoint_alignment=alignment,
            window=window,
            retention=getattr(cache, "prefix_cache_retention_interval", None),
            runner=type(self.runner).__name__,
        )

    def add(self, name: str, tokens: list[int], outputs: int, *, priority: int = 0, best: bool = False) -> None:
        """Add a request. With `best`, its outputs come with the logits of the two best tokens."""
        from vllm import SamplingParams
        from vllm.v1.engine import EngineCoreRequest

        sampling = SamplingParams(
            temperature=0.0,
            max_tokens=outputs,
            ignore_eos=True,
            stop_token_ids=[STOP],
            detokenize=False,
            logprobs=2 if best else None,
        )
        self._arrivals += 1.0
        offered = {
            "request_id": name,
            "prompt_token_ids": list(tokens),
            "mm_features": None,
            "sampling_params": sampling,
            "pooling_params": None,
            "arrival_time": self._arrivals,  # which of equal priority is preempted follows from it
            "lora_request": None,
            "cache_salt": None,
            "data_parallel_rank": None,
            "eos_token_id": None,
            "priority": priority,
        }
        fields = set(EngineCoreRequest.__struct_fields__)
        request = EngineCoreRequest(**{name: value for name, value in offered.items() if name in fields})
        made, wave = self.core.preprocess_add_request(request)
        self.core.add_request(made, wave)

    @property
    def has_work(self) -> bool:
        """Whether there are requests, or steps in flight."""
        return bool(self.scheduler.has_requests() or self.core.batch_queue)

    def step(self) -> Any:
        """One step of a synchronous engine core, or of an asynchronous one. Returns its outputs, by request."""
        outputs, executed = self.core.step_fn()
        self.core.post_step(executed)
        return [one for client in (outputs or {}).values() for one in client.outputs]

    def kernel_faults(self) -> bool:
        """Whether an access of a fused kernel was refused so far."""
        return self._kernels is not None and bool(self._kernels.faults)

    def land(self) -> None:
        """Let what the device has counted reach the host now."""
        event = getattr(self.runner, "num_accepted_tokens_event", None)
        if event is not None:
            event.synchronize()

    def close(self) -> None:
        """Drop the engine, and the memory that it holds."""
        self.core.shutdown()


def _arguments(options: EngineOptions, model: str) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "model": model,
        "skip_tokenizer_init": True,
        "enforce_eager": True,
        "dtype": "float32",
        "seed": 0,
        "max_model_len": options.length_limit,
        "max_num_seqs": options.requests,
        "max_num_batched_tokens": options.budget,
        "num_gpu_blocks_override": options.num_blocks,
        "enable_prefix_caching": not options.plain,
        "enable_chunked_prefill": True,
        "disable_log_stats": True,
    }
    if options.plain:
        return arguments
    arguments |= {
        "mamba_cache_mode": "align",
        "block_size": options.block_size,
        "scheduling_policy": options.policy,
        "long_prefill_token_threshold": options.prefill_threshold,
        "prefix_match_unit": options.match_unit,
        "prefix_cache_retention_interval": options.retention,
        "enable_mamba_shared_prefix_checkpoint": True if options.shared_prefix_checkpoint else None,
    }
    if options.num_spec:
        arguments["speculative_config"] = {
            "method": "ngram",
            "num_speculative_tokens": options.num_spec,
            "prompt_lookup_max": 3,
            "prompt_lookup_min": 1,
        }
    return {name: value for name, value in arguments.items() if value is not None or name.startswith("prefix_cache")}


def prepare_environment() -> None:
    """Set the variables that vLLM reads when it is imported."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "0"
    os.environ["VLLM_CPU_KVCACHE_SPACE"] = "1"
    os.environ["VLLM_LOGGING_LEVEL"] = "ERROR"
    os.environ["VLLM_NO_USAGE_STATS"] = "1"
    os.environ["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["CUDA_VISIBLE_DEVICES"] = ""

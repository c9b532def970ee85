"""A V1 runner without a model is the release's own V1 runner, with everything that its host code needs.

Everything that would use layers, caches, streams or a device is replaced. If the host code needs a part that was not
provided, the error names it.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from types import ModuleType, SimpleNamespace
from typing import Any, Protocol

from harness.case.sequence import SequenceConfig
from harness.kernels.targets.vllm.scheduling import stubs
from harness.kernels.targets.vllm.scheduling.engine import Engine
from harness.kernels.targets.vllm.scheduling.launches_v1 import replace_launches, require_launches
from harness.kernels.targets.vllm.scheduling.loading import module
from harness.kernels.targets.vllm.scheduling.runner_pair import HostCodeLacks
from harness.kernels.targets.vllm.scheduling.stub_objects_v1 import without_pinned_memory
from harness.kernels.targets.vllm.scheduling.stubs import Quiet, nothing
from harness.refusal import UnknownTarget
from harness.text import one_line

_RUNNER = "vllm.v1.worker.gpu_model_runner"
_NEEDED = (
    "execute_model",
    "sample_tokens",
    "propose_draft_token_ids",
    "take_draft_token_ids",
    "_update_states",
    "_prepare_inputs",
    "_build_attention_metadata",
    "_model_forward",
    "_sample",
    "_make_buffer",
    "_bookkeeping_sync",
    "_update_states_after_model_execute",
    "_get_valid_sampled_token_count",
)
_PARTS = ("set_forward_context", "AsyncGPUModelRunnerOutput", "Mamba2AttentionMetadataBuilder", "torch")
_DRAFTERS = {
    "ngram": ("vllm.v1.spec_decode.ngram_proposer", "NgramProposer"),
    "mtp": ("vllm.v1.spec_decode.eagle", "EagleProposer"),
    "eagle": ("vllm.v1.spec_decode.eagle", "EagleProposer"),
    "draft_model": ("vllm.v1.spec_decode.draft_model", "DraftModelProposer"),
    "dflash": ("vllm.v1.spec_decode.dflash", "DFlashProposer"),
}


class RunnerDriverV1(Protocol):
    """Drives a runner without a model: it gets what would be launched, and returns what a model would return."""

    engine: Engine
    config: SequenceConfig
    batch: Any
    mamba_state_idx: dict[str, int]
    received: dict[int, tuple[Any, dict[str, Any]]]
    """By KV-cache group, the inputs of its layers' metadata builders."""
    copy_buffers: Any
    context: Any

    def landing_event(self) -> Any:
        """The event of the copy of accepted counts to the host."""

    def propose(self, values: tuple[Any, ...]) -> Any:
        """The drafter, called with `values`."""


@functools.cache
def v1_host_code_refusal() -> str | None:
    """Why the host code of the loaded release's V1 runner cannot be driven, in one line; None if it can.

    The release must have the functions that are replaced or called, under their names from 0.25.0 to 0.33.0.
    """
    try:
        require_launches()
        runner = module(_RUNNER)
        for holder, names in ((runner.GPUModelRunner, _NEEDED), (runner, _PARTS)):
            for name in names:
                if not hasattr(holder, name):
                    return f"its V1 runner has no {name}"
        for method in _DRAFTERS:
            _drafter_kind(method)
    except (UnknownTarget, AttributeError) as error:
        return one_line(error)
    return None


class _Torch:
    """Torch without a GPU: its streams do nothing, everything else is torch itself."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.cuda = SimpleNamespace(
            current_stream=Quiet, stream=lambda _: contextlib.nullcontext(), Stream=Quiet, Event=Quiet
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)


@functools.cache
def _replace_devices() -> None:
    """Called once: replace launches, streams, compilers, and the few functions that would use layers."""
    import torch

    replace_launches()
    without_pinned_memory()
    torch.compiler.set_stance("force_eager")  # compiling takes seconds, too long for a function of ten small tensors
    runner = module(_RUNNER)
    runner.torch = _Torch(runner.torch)
    runner.set_forward_context = lambda *_, **__: contextlib.nullcontext()
    runner.AsyncGPUModelRunnerOutput = lambda **_: SimpleNamespace(
        sampled_token_ids_cpu=None, async_copy_ready_event=None
    )


@functools.cache
def _runner_kind() -> Any:
    """The release's runner, with an error that names any part that was not provided."""
    kind: Any = module(_RUNNER).GPUModelRunner

    class Runner(kind):  # type: ignore[misc]
        def __init__(self, **values: Any) -> None:
            self.__dict__.update(values)

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            raise HostCodeLacks(f"this release's V1 runner needs {name}, which its stub does not have")

        def _zero_block_ids(self, blocks: list[int]) -> None:
            self.driver.zeroed.extend(blocks)

        def _update_states(self, output: Any) -> Any:
            before = set(self.input_batch.req_id_to_index)
            corrections = super()._update_states(output)
            self.driver.updated(before, output)
            return corrections

        def _prepare_inputs(self, *values: Any, **named: Any) -> Any:
            self.driver.preparing()
            prepared = super()._prepare_inputs(*values, **named)
            self.driver.prepared(prepared)
            return prepared

        def _model_forward(self, *_: Any, **__: Any) -> Any:
            return self.hidden

        def _sample(self, logits: Any, metadata: Any) -> Any:
            return SimpleNamespace(sampled_token_ids=self.driver.sampled(metadata), logprobs_tensors=None)

        def _get_or_create_async_output_copy_stream(self) -> None:
            return None

    return Runner


class _Group:
    """The layers of a KV-cache group: keeps the inputs of their metadata builders."""

    layer_names = ()
    backend = SimpleNamespace(forward_includes_kv_cache_update=True)

    def __init__(self, builder: Any, received: dict[int, tuple[Any, dict[str, Any]]], number: int) -> None:
        self._builder, self._received, self._number = builder, received, number
        builder.group = self

    def get_metadata_builder(self, *_: Any) -> Any:
        return self._builder

    def build_metadata(self, common: Any, _micro_batch: int = 0, **extra: Any) -> None:
        self._received[self._number] = (common, extra)


@functools.cache
def _builder_kinds() -> tuple[Any, Any]:
    """Builders of attention layers, and of Mamba layers, which get more inputs."""

    class Builder:
        supports_update_block_table = False

        def __init__(self) -> None:
            """Nothing: there are no layers to inspect."""

        def build(self, common_prefix_len: int, common_attn_metadata: Any, **extra: Any) -> None:
            self.group.build_metadata(common_attn_metadata, **extra)  # type: ignore[attr-defined]

    mamba: Any = module(_RUNNER).Mamba2AttentionMetadataBuilder
    return Builder, type("MambaBuilder", (Builder, mamba), {"__init__": Builder.__init__})


@functools.cache
def _drafter_kind(method: str) -> Any:
    """The release's class of drafters. A class that is imported only for drafting may need packages that are not here:
    then an empty class takes its place.
    """
    place, name = _DRAFTERS[method]
    try:
        return getattr(module(place), name)
    except UnknownTarget:
        if method != "ngram":
            raise
    stub = sys.modules[place] = ModuleType(place)
    kind = type(name, (), {})
    setattr(stub, name, kind)
    return kind


def _buffer(size: int, dtype: Any) -> Any:
    """The release's pair of a buffer on the host and one on the device."""
    import torch

    return module("vllm.v1.utils").CpuGpuBuffer(size, dtype=dtype, device=torch.device("cpu"), pin_memory=False)


def _buffers(rows: int, tokens: int) -> dict[str, Any]:
    """The buffers of the runner, by its names."""
    import torch

    of_rows = (
        "prev_num_draft_tokens",
        "num_accepted_tokens",
        "num_decode_draft_tokens",
        "num_scheduled_tokens",
        "encoder_seq_lens",
    )
    made = {name: _buffer(rows, torch.int32) for name in of_rows}
    made["prev_positions"] = _buffer(rows, torch.int64)
    made["discard_request_mask"] = _buffer(rows, torch.bool)
    made["query_start_loc"] = _buffer(rows + 1, torch.int32)
    made["input_ids"] = _buffer(tokens, torch.int32)
    made["req_indices"] = _buffer(tokens, torch.int64)
    made["is_token_ids"] = _buffer(tokens, torch.bool)
    made["query_pos"] = _buffer(max(rows + 1, tokens), torch.int64)
    made["num_accepted_tokens"].np.fill(1)
    made["num_accepted_tokens"].copy_to_gpu()
    return made


def _drafter(driver: RunnerDriverV1) -> Any:
    """The release's drafter of the configured method, which proposes the driver's drafts."""
    import torch

    kind = _drafter_kind(driver.config.spec_method)
    own = {
        "__init__": lambda self: None,
        "propose": lambda self, *values, **named: driver.propose(values),
        "take_last_draft_probs": nothing,
    }
    drafter = type("Drafter", (kind,), own)()
    drafter.kv_cache_gid = driver.engine.attention_groups[-1]
    drafter.supports_mm_inputs = False
    drafter.backup_next_token_ids = _buffer(driver.config.requests, torch.int32)
    return drafter


def make_runner(driver: RunnerDriverV1) -> Any:
    """A runner that passes to the driver what it would launch, and gets from it what a model would return."""
    _replace_devices()
    import numpy as np
    import torch

    engine, config = driver.engine, driver.config
    device = torch.device("cpu")
    vllm_config, groups = engine.vllm_config, engine.kv_cache_config.kv_cache_groups
    rows, tokens = config.requests, config.budget
    size = max(rows + 1, tokens)
    runner = module(_RUNNER)

    def dispatch(*, num_tokens: int, **_: Any) -> Any:
        return runner.CUDAGraphMode.NONE, runner.BatchDescriptor(num_tokens)

    speculative, asynchronous = config.num_spec > 0, config.asynchronous
    attention_kind, mamba_kind = _builder_kinds()
    kinds = [mamba_kind if i in engine.mamba_groups else attention_kind for i in range(len(groups))]
    if getattr(vllm_config, "observability_config", None) is None:
        object.__setattr__(vllm_config, "observability_config", SimpleNamespace(cudagraph_metrics=False))
    for name, value in (("enable_prompt_embeds", False), ("is_mm_prefix_lm", False), ("model_arch_config", _MODEL)):
        object.__setattr__(vllm_config.model_config, name, value)
    return _runner_kind()(
        **stubs.V1,
        **stubs.config_parts(vllm_config),
        **_buffers(rows, tokens),
        driver=driver,
        hidden=torch.zeros(tokens, 1),
        compilation_config=SimpleNamespace(
            static_forward_context={}, pass_config=SimpleNamespace(enable_sp=False), fast_moe_cold_start=False
        ),
        device=device,
        max_num_reqs=rows,
        max_model_len=config.length_limit,
        effective_drafter_max_model_len=config.length_limit,
        max_num_tokens=tokens,
        num_spec_tokens=config.num_spec,
        prev_num_spec_tokens=config.num_spec,
        uniform_decode_query_len=1 + config.num_spec,
        reorder_batch_threshold=1 + config.num_spec,
        use_async_scheduling=asynchronous,
        use_async_spec_decode=asynchronous and speculative,
        kv_cache_config=engine.kv_cache_config,
        kv_caches=[],
        attn_groups=[[_Group(kind(), driver.received, i)] for i, kind in enumerate(kinds)],
        requests={},
        input_batch=driver.batch,
        num_prompt_logprobs={},
        late_interaction_runner=Quiet(),
        encoder_cache={},
        mamba_state_idx=driver.mamba_state_idx,
        _mamba_bufs=SimpleNamespace(preprocess=driver.copy_buffers, postprocess_align=driver.context),
        _mamba_state_copy_funcs={},
        model=SimpleNamespace(compute_logits=nothing, get_mamba_state_copy_func=nothing),
        drafter=_drafter(driver) if speculative else None,
        cudagraph_dispatcher=SimpleNamespace(dispatch=dispatch),
        positions=torch.zeros(tokens, dtype=torch.int64),
        is_padding=torch.zeros(tokens, dtype=torch.bool),
        seq_lens=torch.zeros(rows, dtype=torch.int32),
        optimistic_seq_lens_cpu=torch.zeros(rows, dtype=torch.int32),
        num_computed_tokens=torch.zeros(rows, dtype=torch.int32),
        arange_np=np.arange(size, dtype=np.int64),
        _arange_scratch=np.empty(size, dtype=np.int64),
        prepare_inputs_event=Quiet() if asynchronous else None,
        transfer_event=Quiet(),
        sampled_token_ids_pinned_cpu=torch.empty((rows, 1), dtype=torch.int64),
        draft_token_ids_cpu=torch.empty((rows, max(config.num_spec, 1)), dtype=torch.int64),
        valid_sampled_token_count_cpu=torch.empty(rows, dtype=torch.int32),
        draft_token_ids_event=Quiet() if speculative else None,
        num_accepted_tokens_event=driver.landing_event() if speculative else None,
        draft_token_ids_copy_stream=Quiet(),
        valid_sampled_token_count_event=Quiet() if speculative and asynchronous else None,
        valid_sampled_token_count_copy_stream=Quiet(),
    )


_MODEL = SimpleNamespace(hidden_size=8, rswa_window=None)
"""Properties of a model's architecture that attention metadata need."""

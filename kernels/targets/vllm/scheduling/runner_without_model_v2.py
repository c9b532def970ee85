"""A V2 runner without a model is the release's own V2 runner, with everything that its host code needs.

Everything that would use layers, caches, streams or a device is replaced. If the host code needs a part that was not
provided, the error names it.
"""

from __future__ import annotations

import contextlib
import functools
from types import SimpleNamespace
from typing import Any, Protocol

from harness.case.sequence import SequenceConfig
from harness.kernels.targets.vllm.bare import accepted
from harness.kernels.targets.vllm.scheduling import stubs
from harness.kernels.targets.vllm.scheduling.engine import Engine
from harness.kernels.targets.vllm.scheduling.launches_v2 import replace_launches, require_launches
from harness.kernels.targets.vllm.scheduling.loading import module
from harness.kernels.targets.vllm.scheduling.rules_v2 import GPU, rules_v2
from harness.kernels.targets.vllm.scheduling.runner_pair import HostCodeLacks
from harness.kernels.targets.vllm.scheduling.stub_objects_v1 import without_pinned_memory
from harness.kernels.targets.vllm.scheduling.stubs import Quiet, nothing
from harness.refusal import UnknownTarget
from harness.text import one_line


class RunnerDriverV2(Protocol):
    """Drives a runner without a model: it gets what would be launched, and returns what a model would return."""

    engine: Engine
    config: SequenceConfig
    zeroed: list[int]
    copies: list[tuple[int, int]]
    layers: Any
    """The attention groups, which keep the inputs of their layers' metadata builders."""
    context: Any

    def propose(self) -> Any:
        """The drafter."""


class _NoModel:
    """Takes the place of the model, and runs nothing."""

    def __init__(self) -> None:
        import torch

        self._hidden = torch.zeros(1)

    def __call__(self, **_: Any) -> Any:
        return self._hidden

    def compute_logits(self, *_: Any) -> None:
        """Nothing: this function is used only for log probabilities, which no request wants."""


_NEEDED = ("execute_model", "sample_tokens", "prepare_inputs", "sample")


@functools.cache
def host_code_refusal() -> str | None:
    """Why the loaded release's host code cannot be driven, in one line; None if it can.

    The release must have the functions that are replaced, under their names from 0.25.0 to 0.33.0.
    """
    try:
        rules_v2()
        require_launches()
        runner, states = module(f"{GPU}.model_runner"), module(f"{GPU}.model_states.mamba_hybrid")
        for holder, names in ((runner.GPUModelRunner, _NEEDED), (states, ("build_attn_metadata",))):
            for name in names:
                if not hasattr(holder, name):
                    return f"its V2 runner has no {name}"
    except (UnknownTarget, AttributeError) as error:
        return one_line(error)
    return None


@functools.cache
def _replace_devices() -> None:
    """Called once: replace launches, and the few functions that would use layers, caches or streams."""
    replace_launches()
    without_pinned_memory()
    runner, hybrid = module(f"{GPU}.model_runner"), module(f"{GPU}.model_states.mamba_hybrid")

    def build(*, attn_groups: Any, **given: Any) -> dict[str, Any]:
        attn_groups.received = given
        return {}

    hybrid.build_attn_metadata = build
    runner.copy_kv_cache_blocks_inplace = lambda caches, blocks, copies, *_: caches.extend(
        (copy.src_block_id, copy.dst_block_id) for copy in copies
    )
    if hasattr(runner, "async_copy_to_gpu"):  # before 0.30: it pins memory
        runner.async_copy_to_gpu = _copied
    runner.AsyncOutput = lambda **_: None
    runner.set_forward_context = lambda *_, **__: contextlib.nullcontext()


def _copied(content: Any, out: Any = None, device: Any = None) -> Any:
    """A copy to the device, which is ordinary memory here."""
    import torch

    copy = torch.as_tensor(content).clone()
    return copy if out is None else out.copy_(copy)


@functools.cache
def _kinds() -> tuple[Any, Any]:
    """The release's runner and model state, with errors that name any part that was not provided."""
    runner_kind: Any = module(f"{GPU}.model_runner").GPUModelRunner
    state_kind: Any = module(f"{GPU}.model_states.mamba_hybrid").MambaHybridModelState

    class Runner(runner_kind):  # type: ignore[misc]
        def __init__(self, **values: Any) -> None:
            self.__dict__.update(values)

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            raise HostCodeLacks(f"this release's V2 runner needs {name}, which its stub does not have")

        def prepare_inputs(self, *values: Any, **named: Any) -> Any:
            self.batch = super().prepare_inputs(*values, **named)
            return self.batch

        def sample(self, hidden: Any, batch: Any, grammar: Any) -> Any:
            return self.driver.sampled(batch)

    class State(state_kind):  # type: ignore[misc]
        def add_request(self, slot: int, new: Any) -> None:
            before = int(self._mamba_state_idx_gpu[slot])
            super().add_request(slot, new)
            self.driver.seed(slot, new, before)

        def preprocess_state(self, *values: Any, **named: Any) -> None:
            self._mamba_ctx.before = self.num_accepted_tokens_gpu.tolist()
            super().preprocess_state(*values, **named)

    return Runner, State


def _encoder_connector() -> Any:
    """The release's connector of encoder caches that does nothing; None if there is none (before 0.28)."""
    try:
        return module(f"{GPU}.ec_connector").NO_OP_EC_CONNECTOR
    except UnknownTarget:
        return None


def make_runner(driver: RunnerDriverV2) -> Any:
    """A runner that passes to the driver what it would launch, and gets from it what a model would return."""
    _replace_devices()
    import torch

    engine, config = driver.engine, driver.config
    device = torch.device("cpu")
    vllm_config, groups = engine.vllm_config, engine.kv_cache_config.kv_cache_groups
    rows, length = config.requests, config.length_limit + config.num_spec + 1
    runner_kind, state_kind = _kinds()
    graphs = module(f"{GPU}.cudagraph_utils")
    runner_module = module(f"{GPU}.model_runner")
    none = module("vllm.config.compilation").CUDAGraphMode.NONE
    sizes = [int(group.kv_cache_spec.block_size) for group in groups]
    kind = module(f"{GPU}.states").RequestState
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
    kind = module(f"{GPU}.block_table").BlockTables
    tables = kind(
        **accepted(
            kind,
            {
                "block_sizes": sizes,
                "kernel_block_sizes": sizes,
                "max_num_reqs": rows,
                "max_num_batched_tokens": config.budget,
                "max_num_blocks_per_group": [-(-length // size) + config.num_spec + 1 for size in sizes],
                "device": device,
            },
        )
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
    state.driver = driver
    state.__init__(vllm_config, model, None, device)
    state._mamba_ctx, state._mamba_state_copy_funcs = driver.context, ()

    def dispatch(requests: int, tokens: int, *_: Any, **__: Any) -> Any:
        return graphs.BatchExecutionDescriptor(cg_mode=none, num_tokens=tokens, num_reqs=requests)

    handler_kind = module(f"{GPU}.spec_decode.utils").DraftTokensHandler
    handler = handler_kind.__new__(handler_kind)
    handler.req_ids, handler.draft_tokens_np, handler.num_draft_tokens = [], None, 0
    speculator = None
    if config.num_spec:
        speculator = SimpleNamespace(supports_mm_inputs=False, draft_logits=None)
        speculator.propose = lambda *_, **__: driver.propose()
    return runner_kind(
        **stubs.V2,
        **stubs.config_parts(vllm_config),
        driver=driver,
        batch=None,
        compilation_config=vllm_config.compilation_config,
        device=device,
        max_num_reqs=rows,
        max_model_len=length,
        max_num_tokens=config.budget,
        vocab_size=config.vocabulary + 40,
        num_speculative_steps=config.num_spec,
        decode_query_len=config.num_spec + 1,
        kv_cache_config=engine.kv_cache_config,
        kv_caches=driver.copies,
        kv_block_zeroer=SimpleNamespace(zero_block_ids=driver.zeroed.extend),
        attn_groups=driver.layers,
        req_states=states,
        block_tables=tables,
        model_state=state,
        input_buffers=module(f"{GPU}.input_batch").InputBuffers(
            max_num_reqs=rows, max_num_tokens=config.budget, device=device
        ),
        model=_NoModel(),
        speculator=speculator,
        draft_tokens_handler=handler,
        sampler=SimpleNamespace(
            add_request=nothing,
            apply_staged_writes=nothing,
            penalties_state=SimpleNamespace(output_bin_counts=None),
            sampling_states=SimpleNamespace(temperature=SimpleNamespace(gpu=None), seeds=SimpleNamespace(gpu=None)),
        ),
        prompt_logprobs_worker=Quiet(),
        cudagraph_manager=SimpleNamespace(dispatch=dispatch),
        lora_state=runner_module.LoraState(max_num_reqs=rows),
        kv_connector=runner_module.NO_OP_KV_CONNECTOR,
        ec_connector=_encoder_connector(),
        eplb=Quiet(),
        step_timing=getattr(runner_module, "StepTimingCollector", Quiet)(),
    )

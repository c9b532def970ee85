"""Needed names are those of vLLM that step sequences look up, and the runners that cannot run without them.

Where the base release of a checkout has one and the checkout does not, it is lost: renamed, moved, or taken out. A
release that never had it is driven without it, and says so elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from harness.case import Runner
from harness.kernels.targets.vllm.scheduling.loading import base_source, has_base, module, own_source
from harness.kernels.targets.vllm.scheduling.release_source import file_of
from harness.refusal import UnknownTarget

_SCHEDULER = "vllm.v1.core.sched.scheduler"
_V1 = "vllm.v1.worker.gpu_model_runner"
_V1_UTILS = "vllm.v1.worker.mamba_utils"
_V2 = "vllm.v1.worker.gpu.model_runner"
_V2_STATE = "vllm.v1.worker.gpu.model_states.mamba_hybrid"


class Name(NamedTuple):
    """A class, a function or a `Class.method` of a module."""

    module: str
    name: str


def _methods(module: str, kind: str, names: str) -> tuple[Name, ...]:
    return tuple(Name(module, f"{kind}.{name}") for name in names.split())


def _functions(module: str, names: str) -> tuple[Name, ...]:
    return tuple(Name(module, name) for name in names.split())


OF_ALL = (
    *_methods(
        _SCHEDULER,
        "Scheduler",
        "schedule update_from_output update_draft_token_ids add_request finish_requests reset_prefix_cache "
        "_update_request_as_session",
    ),
    *_methods("vllm.v1.engine.core", "EngineCore", "step_with_batch_queue resume_scheduler sleep wake_up"),
    *_methods("vllm.v1.engine.core", "EngineCoreProc", "pause_scheduler has_work"),
    *_functions("vllm.v1.core.kv_cache_utils", "get_request_block_hasher init_none_hash"),
)
"""For sequences of either runner."""

OF_RUNNER: Mapping[Runner, tuple[Name, ...]] = {
    "V1": (
        *_methods(
            _V1,
            "GPUModelRunner",
            "execute_model sample_tokens propose_draft_token_ids take_draft_token_ids _update_states "
            "_update_streaming_request _prepare_inputs _may_reorder_batch _build_attention_metadata _model_forward "
            "_sample _make_buffer _bookkeeping_sync _update_states_after_model_execute "
            "_get_valid_sampled_token_count",
        ),
        *_functions(
            _V1_UTILS,
            "preprocess_mamba cleanup_mamba_state_idx stage_postprocess_inputs_to_gpu collect_mamba_copy_meta "
            "do_mamba_copy_block",
        ),
        Name("vllm.v1.worker.gpu_input_batch", "InputBatch"),
    ),
    "V2": (
        *_methods(_V2, "GPUModelRunner", "execute_model sample_tokens prepare_inputs sample finish_requests"),
        Name(_V2, "sort_batch_req_ids"),
        *_methods(_V2_STATE, "MambaHybridModelState", "add_request preprocess_state prepare_attn postprocess_state"),
    ),
}
"""For sequences of one runner, with its host code or a model of it."""


class LostName(NamedTuple):
    """A name that is lost, and a line that says what was looked for, and what is there instead."""

    name: Name
    why: str


def lost_names(names: Iterable[Name]) -> Iterator[LostName]:
    """Those of `names` that the base release has, and what is loaded does not; none if that is a release."""
    if not has_base():
        return
    own, base = own_source(), base_source()
    for name in names:
        if base.has(*name) and not _is_there(name):
            last = name.name.rpartition(".")[2]
            there = [one for one in own.names(name.module) if one.rpartition(".")[2] == last]
            instead = f": there is {' and '.join(there)} now" if there else ""
            place = f"{name.name} in {file_of(name.module)}"
            yield LostName(name, f"looked for {place}, as in {base.origin}{instead}")


def _is_there(name: Name) -> bool:
    """Whether it can be looked up, be it inherited or imported."""
    try:
        found = module(name.module)
        for part in name.name.split("."):
            found = getattr(found, part)
    except (UnknownTarget, AttributeError):
        return False
    return True

"""Stubs are attributes of a runner without a model that do nothing: parts that are absent or switched off.

They are data, grouped by their purpose in a runner. If the host code needs a part that is not in any table, the
runner itself names it.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


def nothing(*_: Any, **__: Any) -> None:
    """Ignores all arguments."""
    return


class Quiet:
    """A stream, an event or another part that does nothing here: every call returns None."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return nothing


def _each(names: str, value: object) -> dict[str, object]:
    return dict.fromkeys(names.split(), value)


ONE_RANK: dict[str, object] = {
    # No context parallelism.
    "dcp_rank": 0,
    # No adapters.
    "lora_config": None,
}
"""For both runners: there is one rank, and one model without adapters."""

V1: dict[str, object] = {
    **ONE_RANK,
    "dcp_world_size": 1,
    # Results of an earlier part of the step, or of another rank.
    **_each("execute_model_state kv_connector_output intermediate_tensors _pp_recv_work", None),
    # Drafts of the previous step: there was none.
    **_each("_draft_token_ids _draft_token_req_ids _draft_probs _draft_prob_req_ids", None),
    **_each("valid_sampled_token_count_gpu mamba_prev_last_scheduled_idx lookback_token_ids", None),
    **_each("_ngram_pinned_idx_buf _ngram_pinned_val_buf", None),
    # Mixtures of experts.
    **_each("eplb_state routed_experts_capturer", None),
    **_each("routed_experts_initialized check_ep_fault eep_eplb_suppressed", False),
    # Inputs other than text, and their positions.
    **_each("enable_prompt_embeds supports_mm_inputs is_mm_prefix_lm is_multimodal_raw_input_only uses_mrope", False),
    **_each("uses_xdrope_dim max_encoder_len", 0),
    # Ways to run a model.
    **_each("is_pooling_model broadcast_pp_output use_aux_hidden_state_outputs", False),
    **_each("cascade_attn_enabled calculate_kv_scales", False),
}
"""For the V1 runner."""

V2: dict[str, object] = {
    **ONE_RANK,
    # One rank.
    **_each("dp_rank", 0),
    **_each("dcp_size dp_size cp_interleave", 1),
    **_each("is_first_pp_rank is_last_pp_rank", True),
    **_each("use_pp use_dcp", False),
    **_each("pcp_manager pp_handler ubatch_runner batch_sharder", None),
    # Mixtures of experts.
    **_each("check_ep_fault", False),
    **_each("routed_experts_capturer", None),
    # Inputs other than text, and encoders.
    **_each("is_encoder_decoder is_encoder_only supports_mm_inputs uses_inputs_embeds", False),
    **_each("encoder_cache", None),
    # Ways to run a model, and its outputs.
    **_each("use_aux_hidden_state_outputs", False),
    **_each("adaptive_verification aux_output_connector fast_prefill pooling_runner", None),
    **_each("rejection_sampler structured_outputs_worker execute_model_state", None),
    # Streams of a device.
    **_each("main_stream output_copy_stream", None),
    **_each("_draft_workspace_lane", 0),
}
"""For the V2 runner."""


def config_parts(vllm_config: Any) -> dict[str, object]:
    """Parts of the configuration that a runner keeps as its own attributes."""
    names = ("model_config", "cache_config", "scheduler_config", "parallel_config", "speculative_config")
    parts = {name: getattr(vllm_config, name) for name in names}
    return {"vllm_config": vllm_config, **parts, "observability_config": SimpleNamespace(cudagraph_metrics=False)}

"""Rules of V1: the behaviour of the loaded release's V1 runner, and of the layers that read its host code's output.

Each is recognised in the loaded release by the parameter or text that came with it, not by a version.
"""

from __future__ import annotations

import functools

from harness.kernels.targets.vllm.bare import parameter_names, source_of
from harness.kernels.targets.vllm.scheduling.loading import module
from harness.kernels.targets.vllm.scheduling.rules import RunnerRules


@functools.cache
def rules_v1() -> RunnerRules:
    """The rules of the loaded release."""
    runner = module("vllm.v1.worker.gpu_model_runner").GPUModelRunner
    builder = module("vllm.v1.attention.backends.mamba_attn").BaseMambaAttentionMetadataBuilder
    prepares = source_of(runner._prepare_inputs)
    return RunnerRules(
        zero_drafts="zero_draft_decode_mask" in prepares,
        # The layers see how many drafts a row has, and so they see the padded last token of a prompt.
        padded_tails="num_decode_draft_tokens_cpu" in parameter_names(builder._compute_common_metadata),
        # A row counts as past its prefill once it is past its prompt, even if it computes outputs again.
        recomputed_as_decodes="num_computed_tokens_cpu < num_prompt_tokens_cpu"
        in source_of(runner._build_attention_metadata),
        counts_by_previous_row="prev_positions" in prepares,
    )

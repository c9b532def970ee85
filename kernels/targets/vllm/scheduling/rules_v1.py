"""Rules of V1 are what releases differ in, of the layers that read what the V1 runner's host code says.

Each is recognised in the loaded release by the parameter or words that came with it, not by a version.
"""

from __future__ import annotations

import functools

from harness.kernels.targets.vllm.bare import parameter_names, source_of
from harness.kernels.targets.vllm.scheduling.loading import module


@functools.cache
def sees_padded_tails() -> bool:
    """Whether the layers see how many drafts a row has, and so the last token of a prompt that is padded (0.30)."""
    builder = module("vllm.v1.attention.backends.mamba_attn").BaseMambaAttentionMetadataBuilder
    return "num_decode_draft_tokens_cpu" in parameter_names(builder._compute_common_metadata)


@functools.cache
def ends_prefills_at_prompts() -> bool:
    """Whether a row counts as past its prefill once it is past its prompt, also where it computes outputs again."""
    runner = module("vllm.v1.worker.gpu_model_runner").GPUModelRunner
    return "num_computed_tokens_cpu < num_prompt_tokens_cpu" in source_of(runner._build_attention_metadata)

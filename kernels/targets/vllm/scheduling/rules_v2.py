"""Rules of V2 are what releases differ in, of their V2 host code and of the layers that read what it says.

Each is recognised in the loaded release by the parameter, function or words that came with it, not by a version. Both
V2 workers ask here, and nowhere else: the model for what it has to say, the host worker for what layers would make of
what the host code says.

Layers come in two families, that of Mamba2 and that of gated delta nets, and read different words of the host code. A
row counts as speculative if both families run it so: where one of them would not, the release has a bug in that family.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from harness.kernels.targets.vllm.bare import parameter_names, source_of
from harness.kernels.targets.vllm.scheduling.loading import module
from harness.refusal import UnknownTarget

GPU = "vllm.v1.worker.gpu"
"""The package of the V2 host code."""


class RulesV2(NamedTuple):
    """`sorts_removed`: requests leave in the order of their names, not in that of a set (0.29). `mamba_columns`: a
    column is seeded in Mamba blocks, not in the smallest block size of all groups (0.32). `zero_drafts`: a decode
    without drafts is told to be speculative (0.32). `padded_tails`: the last token of a prompt, padded with drafts,
    runs as a decode, because Mamba2 layers see how many drafts it has (0.30) or because the host code says so (0.31).
    """

    sorts_removed: bool
    mamba_columns: bool
    zero_drafts: bool
    padded_tails: bool


@functools.cache
def rules_v2() -> RulesV2:
    """Those of the loaded release. Raises UnknownTarget if it has no V2 host code for Mamba."""
    try:
        runner = module(f"{GPU}.model_runner").GPUModelRunner
        state = module(f"{GPU}.model_states.mamba_hybrid").MambaHybridModelState
        builder = module("vllm.v1.attention.backends.mamba_attn").BaseMambaAttentionMetadataBuilder
        seen = "num_decode_draft_tokens_cpu" in parameter_names(builder._compute_common_metadata)
        return RulesV2(
            sorts_removed="sorted(" in source_of(runner.finish_requests),
            mamba_columns="mamba_block_size" in source_of(state.add_request),
            zero_drafts="num_draft_tokens_per_req > 0" not in source_of(state.prepare_attn),
            padded_tails=seen or "prefill_runs_as_decode" in source_of(state.prepare_attn),
        )
    except AttributeError as error:
        raise UnknownTarget(f"this release's V2 host code has another shape: {error}") from error

"""Rules of V2: the behaviour of the loaded release's V2 host code, and of the layers that read its output.

Each is recognised in the loaded release by the parameter, function or text that came with it, not by a version.

There are two families of layers, that of Mamba2 and that of gated delta nets, and they read different outputs of the
host code. A row counts as speculative if both families run it so: where one would not, the release has a bug there.
"""

from __future__ import annotations

import functools

from harness.kernels.targets.vllm.bare import parameter_names, source_of
from harness.kernels.targets.vllm.scheduling.loading import module
from harness.kernels.targets.vllm.scheduling.rules import ColumnUnit, RunnerRules
from harness.refusal import UnknownTarget

GPU = "vllm.v1.worker.gpu"
"""The package of the V2 host code."""


@functools.cache
def rules_v2() -> RunnerRules:
    """The rules of the loaded release. Raises UnknownTarget if it has no V2 host code for Mamba."""
    try:
        runner = module(f"{GPU}.model_runner").GPUModelRunner
        state = module(f"{GPU}.model_states.mamba_hybrid").MambaHybridModelState
        builder = module("vllm.v1.attention.backends.mamba_attn").BaseMambaAttentionMetadataBuilder
        seen = "num_decode_draft_tokens_cpu" in parameter_names(builder._compute_common_metadata)
        in_mamba_blocks = "mamba_block_size" in source_of(state.add_request)
        return RunnerRules(
            removes_in_order="sorted(" in source_of(runner.finish_requests),
            column_unit=ColumnUnit.MAMBA if in_mamba_blocks else ColumnUnit.SMALLEST,
            zero_drafts="num_draft_tokens_per_req > 0" not in source_of(state.prepare_attn),
            # Because Mamba2 layers see how many drafts a row has (0.30), or because the host code says so (0.31).
            padded_tails=seen or "prefill_runs_as_decode" in source_of(state.prepare_attn),
        )
    except AttributeError as error:
        raise UnknownTarget(f"this release's V2 host code has another shape: {error}") from error

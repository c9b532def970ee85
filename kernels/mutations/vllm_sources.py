"""The places of the code that mutations change, in the releases of vLLM."""

from __future__ import annotations

MAMBA_UTILS = "vllm/v1/worker/mamba_utils.py"
MAMBA_HYBRID = "vllm/v1/worker/gpu/model_states/mamba_hybrid.py"
"""The V2 runner's model state, under test since 0.23.0."""
COPY_BODY = "_copy_mamba_state_block"
"""The function that moves one state, since 0.25.0."""
POSTPROCESS = "postprocess_mamba_fused_kernel"
"""The postprocess kernel; before 0.25.0 it also moved the states itself."""
PRECOPY = "precopy_mamba_align_fused_kernel"
STAGE = "stage_postprocess_inputs_to_gpu"

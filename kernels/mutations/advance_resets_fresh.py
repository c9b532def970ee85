"""advance-resets-fresh: a request without a state has no column to leave."""

from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.mutations.vllm_sources import MAMBA_UTILS

MUTATION = Mutation(
    name="advance-resets-fresh",
    summary="Advance resets the accepted count of requests that have no state yet.",
    rewrites={
        "builtin": {
            "fused/advance.py": [
                [
                    Rewrite(
                        "advance_kernel", "inside & (column >= 0) & (column != moved)", "inside & (column != moved)"
                    ),
                ]
            ]
        },
        "vllm": {
            MAMBA_UTILS: [
                [
                    Rewrite(
                        "preprocess_mamba_align_fused_kernel",
                        "(state_idx >= 0) & (state_idx != new_state_idx)",
                        "state_idx != new_state_idx",
                    ),
                ]
            ]
        },
    },
    operations=("advance",),
    domains=("total",),
)

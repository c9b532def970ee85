"""fills-zero: in a batch that sampled nothing, each request still counts as one token."""

from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.mutations.vllm_sources import MAMBA_HYBRID

MUTATION = Mutation(
    name="fills-zero",
    summary="The accepted counts of a batch that sampled nothing become 0.",
    rewrites={
        "builtin": {
            "fused/accepted.py": [
                [
                    Rewrite(
                        "set_accepted_kernel",
                        "tl.maximum(count, 1)",
                        "tl.maximum(count, 1) if HAS_SAMPLED else count",
                    ),
                ]
            ]
        },
        "vllm": {
            MAMBA_HYBRID: [[Rewrite("MambaHybridModelState.postprocess_state", "max(num_sampled, 1)", "num_sampled")]]
        },
    },
    operations=("fill-accepted",),
)

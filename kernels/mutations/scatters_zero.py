"""scatters-zero: a request that sampled nothing, as in a chunk of a prefill, still counts as one token."""

from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.mutations.vllm_sources import MAMBA_HYBRID

MUTATION = Mutation(
    name="scatters-zero",
    summary="The accepted count of a request that sampled nothing becomes 0.",
    rewrites={
        "builtin": {
            "fused/accepted.py": [
                [
                    Rewrite(
                        "set_accepted_kernel",
                        "tl.maximum(count, 1)",
                        "count if HAS_SAMPLED else tl.maximum(count, 1)",
                    ),
                ]
            ]
        },
        "vllm": {
            MAMBA_HYBRID: [[Rewrite("_scatter_num_accepted_kernel", "tl.maximum(num_sampled, 1)", "num_sampled")]]
        },
    },
    operations=("scatter-accepted",),
)

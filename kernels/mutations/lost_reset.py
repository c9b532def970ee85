"""lost-reset: the states are right; the next step reads them at the wrong offset."""

from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.mutations.vllm_sources import MAMBA_UTILS, POSTPROCESS

MUTATION = Mutation(
    name="lost-reset",
    summary="Postprocess does not set the accepted count to 1 where the state moved inside its block.",
    rewrites={
        "builtin": {
            "fused/postprocess.py": [
                [Rewrite("postprocess_kernel", "reaches & (source_column == blocks - 1)", "reaches & (blocks < 0)")]
            ]
        },
        "vllm": {
            MAMBA_UTILS: [
                [
                    Rewrite(
                        POSTPROCESS,
                        "tl.store(num_accepted_tokens_out_ptr + req_idx, 1)",
                        "tl.store(num_accepted_tokens_out_ptr + req_idx, num_accepted)",
                    )
                ]
            ]
        },
    },
)

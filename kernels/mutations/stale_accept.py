"""stale-accept: programs of other states of a request read the count that one of them has just reset."""

from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.mutations.vllm_sources import MAMBA_UTILS

MUTATION = Mutation(
    name="stale-accept",
    summary="The V2 postprocess reads accepted counts from where it resets them, without a snapshot.",
    rewrites={
        "builtin": {
            "fused/context.py": [
                [
                    Rewrite(
                        "FusedContext.postprocess_in_place", "            self._snapshot,\n", "            accepted,\n"
                    ),
                ]
            ]
        },
        "vllm": {
            MAMBA_UTILS: [
                [
                    Rewrite(
                        "MambaSpecDecodeGPUContext.run_fused_postprocess_align",
                        "            num_accepted_tokens_snapshot,\n            state_idx_gpu",
                        "            num_accepted_tokens_gpu,\n            state_idx_gpu",
                    ),
                ]
            ]
        },
    },
    operations=("postprocess",),
)

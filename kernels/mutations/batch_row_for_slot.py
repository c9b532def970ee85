"""batch-row-for-slot: right as long as every request's slot is its place in the batch."""

from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.mutations.vllm_sources import MAMBA_UTILS, POSTPROCESS

MUTATION = Mutation(
    name="batch-row-for-slot",
    summary="The V2 postprocess reads the table row of the batch row instead of the request slot.",
    rewrites={
        "builtin": {
            "fused/postprocess.py": [
                [Rewrite("postprocess_kernel", "moves,\n                    slot,", "moves,\n                    row,")]
            ]
        },
        "vllm": {
            MAMBA_UTILS: [
                [
                    Rewrite(
                        POSTPROCESS,
                        "        state_idx,\n        req_idx,\n",
                        "        state_idx,\n        batch_idx,\n",
                    ),
                ]
            ]
        },
    },
    operations=("postprocess",),
)

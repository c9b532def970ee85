"""shared-destination: requests that move to the same column write one block, in any order."""

from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.mutations.vllm_sources import COPY_BODY, MAMBA_UTILS

MUTATION = Mutation(
    name="shared-destination",
    summary="The destination block of every request is looked up in the first row of the table.",
    rewrites={
        "builtin": {
            "fused/copy.py": [
                [
                    Rewrite(
                        "look_up_blocks",
                        "tl.load(cells + destination_column",
                        "tl.load(cells - row * table_stride + destination_column",
                    )
                ]
            ]
        },
        "vllm": {
            MAMBA_UTILS: [
                [Rewrite(COPY_BODY, "tl.load(block_table_base + dst_col)", "tl.load(block_table_typed + dst_col)")]
            ]
        },
    },
)

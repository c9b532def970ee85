"""wrong-destination: the state never leaves its column, for any destination block."""

from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.mutations.vllm_sources import COPY_BODY, MAMBA_UTILS, POSTPROCESS

MUTATION = Mutation(
    name="wrong-destination",
    summary="States are written to the block of the source column instead of the destination column.",
    rewrites={
        "builtin": {
            "fused/copy.py": [
                [Rewrite("look_up_blocks", "tl.load(cells + destination_column", "tl.load(cells + source_column")]
            ]
        },
        "vllm": {
            MAMBA_UTILS: [
                [Rewrite(COPY_BODY, "tl.load(block_table_base + dst_col)", "tl.load(block_table_base + src_col)")],
                [
                    Rewrite(
                        POSTPROCESS,
                        "tl.load(block_table_base + dest_block_idx)",
                        "tl.load(block_table_base + src_block_idx)",
                    )
                ],
            ]
        },
    },
)

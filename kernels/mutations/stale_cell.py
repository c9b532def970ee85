"""stale-cell: a cell that was never filled in for this request still holds the id of a block."""

from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.mutations.vllm_sources import COPY_BODY, MAMBA_UTILS

MUTATION = Mutation(
    name="stale-cell",
    summary="The destination's column is counted from the end of the table row, where stale cells lie.",
    rewrites={
        "builtin": {
            "fused/copy.py": [
                [
                    Rewrite(
                        "look_up_blocks",
                        "tl.load(cells + destination_column",
                        "tl.load(cells + table_stride - 1 - destination_column",
                    )
                ]
            ]
        },
        "vllm": {
            MAMBA_UTILS: [
                [
                    Rewrite(
                        COPY_BODY,
                        "tl.load(block_table_base + dst_col)",
                        "tl.load(block_table_base + block_table_stride_req - 1 - dst_col)",
                    )
                ]
            ]
        },
    },
)

"""ignores-skip: a missing row or column (-1) addresses the entry before the first one of every array."""

from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.mutations.vllm_sources import MAMBA_UTILS, PRECOPY

MUTATION = Mutation(
    name="ignores-skip",
    summary="Precopy moves states for rows that the mapping skips, and from column -1 of fresh requests.",
    rewrites={
        "builtin": {
            "fused/precopy.py": [
                [
                    Rewrite("_columns", "inside = slot >= 0", "inside = slot >= -1"),
                    Rewrite(
                        "_columns",
                        "inside & (source >= 0) & (source != destination)",
                        "inside & (source != destination)",
                    ),
                ]
            ]
        },
        "vllm": {
            MAMBA_UTILS: [
                [
                    Rewrite(PRECOPY, "if req_idx < 0:", "if req_idx < -1:"),
                    Rewrite(PRECOPY, "if src_col < 0 or src_col == dst_col:", "if src_col == dst_col:"),
                ]
            ]
        },
    },
    operations=("precopy",),
)

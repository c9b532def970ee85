"""unordered-shift: a window is shifted inside its block as if source and destination were disjoint."""

from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.mutations.vllm_sources import COPY_BODY, MAMBA_UTILS

MUTATION = Mutation(
    name="unordered-shift",
    summary="Lanes shift a conv window inside its block without regard to which of them reads a word first.",
    rewrites={
        "builtin": {
            "fused/copy.py": [
                [Rewrite("locate", "(source_block != destination_block) | (bias == 0)", "source_block >= 0")]
            ]
        },
        "vllm": {
            MAMBA_UTILS: [
                [
                    Rewrite(COPY_BODY, "src_block_id != dest_block_id or token_bias == 0", "src_block_id >= 0"),
                    Rewrite(
                        COPY_BODY,
                        "for token_idx in range(0, num_dst_tokens):\n"
                        "            for row_base in range(0, dim_rows, COPY",
                        "for once in range(0, 1):\n"
                        "            for row_base in range(0, dim_rows * num_dst_tokens, COPY",
                    ),
                    Rewrite(
                        COPY_BODY,
                        "rows = row_base + offsets",
                        "rows = (row_base + offsets) // num_dst_tokens\n"
                        "                token_idx = (row_base + offsets) % num_dst_tokens",
                    ),
                ]
            ]
        },
    },
    operations=("postprocess",),
)

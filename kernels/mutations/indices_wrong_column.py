"""indices-wrong-column: a length that is a multiple of the block size ends in the previous block."""

from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.mutations.vllm_sources import MAMBA_UTILS

MUTATION = Mutation(
    name="indices-wrong-column",
    summary="Aligned indices start one column too far right where a length fills its last block.",
    rewrites={
        "builtin": {
            "fused/indices.py": [
                [
                    Rewrite(
                        "aligned_indices_kernel", "(tl.maximum(length, 1) - 1) // block_size", "length // block_size"
                    ),
                ]
            ]
        },
        "vllm": {
            MAMBA_UTILS: [
                [
                    Rewrite(
                        "get_aligned_state_indices_multi_group_kernel",
                        "(seq_lens - 1) // CACHE_BLOCK_SIZE",
                        "seq_lens // CACHE_BLOCK_SIZE",
                    ),
                ]
            ]
        },
    },
    operations=("aligned-indices",),
)

"""tail-dropped: only sizes that are not a multiple of 8 bytes show it."""

from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.mutations.vllm_sources import MAMBA_UTILS

MUTATION = Mutation(
    name="tail-dropped",
    summary="The last bytes of a copy, fewer than a word, do not arrive.",
    rewrites={
        "builtin": {"fused/copy.py": [[Rewrite("_copy_words", "size - tail, WORD_BYTES)", "0, WORD_BYTES)")]]},
        "vllm": {
            MAMBA_UTILS: [
                [
                    Rewrite("_memcpy_u64_tiled", "tail_mask = tail_off < tail_bytes", "tail_mask = tail_off < 0"),
                ]
            ]
        },
    },
    operations=("postprocess", "precopy"),
    domains=("total",),
)

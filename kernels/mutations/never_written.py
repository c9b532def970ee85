"""never-written: the null block has never held a state of any request."""

from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.mutations.vllm_sources import COPY_BODY, MAMBA_UTILS

MUTATION = Mutation(
    name="never-written",
    summary="Where no drafted token was accepted, temporal states are taken from the null block.",
    rewrites={
        "builtin": {
            "fused/copy.py": [
                [
                    Rewrite(
                        "look_up_blocks",
                        "temporal_bias, mask=inside, other=0)",
                        "temporal_bias, mask=inside & ((unit_and_kind & 3 > TEMPORAL) | (temporal_bias > 0)), other=0)",
                    )
                ]
            ]
        },
        "vllm": {
            MAMBA_UTILS: [
                [
                    Rewrite(
                        COPY_BODY,
                        "tl.load(block_table_base + src_col + token_bias)",
                        "tl.load(block_table_base + src_col + token_bias, mask=token_bias > 0, other=0)",
                    )
                ]
            ]
        },
    },
)

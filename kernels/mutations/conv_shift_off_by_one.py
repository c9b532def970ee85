"""conv-shift-off-by-one: the window is taken one token too late and is one token too short."""

from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.mutations.vllm_sources import COPY_BODY, MAMBA_UTILS, POSTPROCESS

MUTATION = Mutation(
    name="conv-shift-off-by-one",
    summary="Conv windows are moved with the bias plus one.",
    rewrites={
        "builtin": {
            "fused/copy.py": [
                [
                    Rewrite(
                        "locate",
                        "unit_and_kind & 3\n",
                        "unit_and_kind & 3\n    bias += tl.where(kind == TEMPORAL, 0, 1)\n",
                    )
                ]
            ]
        },
        "vllm": {
            MAMBA_UTILS: [
                [
                    Rewrite(
                        COPY_BODY,
                        "is_conv_state = conv_width > 0",
                        "is_conv_state = conv_width > 0\n"
                        "    token_bias = tl.where(is_conv_state, token_bias + 1, token_bias)",
                    )
                ],
                [
                    Rewrite(
                        POSTPROCESS,
                        "is_conv_state = conv_width > 0",
                        "is_conv_state = conv_width > 0\n"
                        "    accept_token_bias = tl.where(is_conv_state, accept_token_bias + 1, accept_token_bias)",
                    )
                ],
            ]
        },
    },
)

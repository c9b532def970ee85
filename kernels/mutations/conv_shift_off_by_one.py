"""conv-shift-off-by-one: the window is taken one token too late and is one token too short."""

from harness.kernels.mutations.mutation import Mutation, Rewrite

MUTATION = Mutation(
    name="conv-shift-off-by-one",
    summary="Conv windows are moved with the bias plus one.",
    rewrites={
        "builtin": {
            "fused/copy.py": [
                [
                    Rewrite(
                        "move_state",
                        "_shift_window(source, destination, window, bias,",
                        "_shift_window(source, destination, window, bias + 1,",
                    ),
                ]
            ],
        },
        "vllm": {
            "vllm/v1/worker/mamba_utils.py": [
                [
                    Rewrite(
                        "_copy_mamba_state_block",
                        "is_conv_state = conv_width > 0",
                        "is_conv_state = conv_width > 0\n"
                        "    token_bias = tl.where(is_conv_state, token_bias + 1, token_bias)",
                    )
                ]
            ]
        },
    },
)

"""signed-address: on some devices every address is negative as a signed number."""

from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.mutations.vllm_sources import COPY_BODY, MAMBA_UTILS

MUTATION = Mutation(
    name="signed-address",
    summary="A state counts as absent, and is not moved, unless its address is positive as a signed number.",
    rewrites={
        "builtin": {
            "fused/copy.py": [
                [
                    Rewrite(
                        "look_up_tile",
                        "left = tl.load(tile + TILE_LEFT)",
                        "left = tl.where(address > 0, tl.load(tile + TILE_LEFT), 0)",
                    ),
                    Rewrite("locate", "tl.where(one_run, tl.where", "tl.where(one_run | (address <= 0), tl.where"),
                ]
            ]
        },
        "vllm": {
            MAMBA_UTILS: [
                [
                    Rewrite(
                        COPY_BODY,
                        "is_conv_state = conv_width > 0",
                        "is_conv_state = conv_width > 0\n    if state_base_addr <= 0:\n        return",
                    )
                ]
            ]
        },
    },
)

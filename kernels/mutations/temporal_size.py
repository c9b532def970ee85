"""temporal-size: a padded page holds other states behind the temporal one, and the copy drags them along."""

from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.mutations.vllm_sources import COPY_BODY, MAMBA_UTILS, POSTPROCESS

MUTATION = Mutation(
    name="temporal-size",
    summary="A temporal copy moves the whole block stride instead of the state's natural bytes.",
    rewrites={
        "builtin": {
            "fused/copy.py": [
                [
                    Rewrite(
                        "move_state",
                        "_copy_run(source, destination, unit,",
                        "_copy_run(source, destination, block_stride,",
                    )
                ]
            ]
        },
        "vllm": {
            MAMBA_UTILS: [
                [
                    Rewrite(
                        COPY_BODY, "copy_size = state_inner_size * state_elem_size", "copy_size = state_block_stride"
                    )
                ],
                [
                    Rewrite(
                        POSTPROCESS, "copy_size = state_inner_size * state_elem_size", "copy_size = state_block_stride"
                    )
                ],
            ]
        },
    },
)

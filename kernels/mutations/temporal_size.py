"""temporal-size: a padded page holds other states behind the temporal one, and the copy moves them too.

Where blocks are gigabytes apart the surplus is limited to 4096 bytes, so that a mutated target does not run
for minutes.
"""

from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.mutations.vllm_sources import COPY_BODY, MAMBA_UTILS, POSTPROCESS

MUTATION = Mutation(
    name="temporal-size",
    summary="A temporal copy moves the whole block stride instead of the state's natural bytes.",
    rewrites={
        "builtin": {
            "fused/context.py": [
                [
                    Rewrite(
                        "_record",
                        "unit = math.prod(tensor.shape[1:]) * item",
                        "unit = min(tensor.stride(0), math.prod(tensor.shape[1:]) + 4096 // item) * item",
                    )
                ]
            ]
        },
        "vllm": {
            MAMBA_UTILS: [
                [
                    Rewrite(
                        COPY_BODY,
                        "copy_size = state_inner_size * state_elem_size",
                        "copy_size = tl.minimum(state_block_stride, state_inner_size * state_elem_size + 4096)",
                    )
                ],
                [
                    Rewrite(
                        POSTPROCESS,
                        "copy_size = state_inner_size * state_elem_size",
                        "copy_size = tl.minimum(state_block_stride, state_inner_size * state_elem_size + 4096)",
                    )
                ],
            ]
        },
    },
)

"""int32-offset: small caches never notice; most real ones have blocks further than 2**31 bytes from their
first.

The offset loses its high bits without turning negative, so that a mutated target writes to a wrong block,
inside the memory of its case, rather than crash.
"""

from harness.kernels.mutations.mutation import Mutation, Rewrite

MUTATION = Mutation(
    name="int32-offset",
    summary="The byte offset of the destination block keeps only the 31 bits of a non-negative 32-bit number.",
    rewrites={
        "builtin": {
            "fused/copy.py": [
                [
                    Rewrite(
                        "move_state",
                        "destination = address + destination_block * block_stride",
                        "destination = address + (destination_block * block_stride & 0x7FFFFFFF)",
                    ),
                ]
            ],
        },
        "vllm": {
            "vllm/v1/worker/mamba_utils.py": [
                [
                    Rewrite(
                        "_copy_mamba_state_block",
                        "dst_addr = state_base_addr + dest_block_id * state_block_stride",
                        "dst_addr = state_base_addr + (dest_block_id * state_block_stride & 0x7FFFFFFF)",
                    )
                ]
            ]
        },
    },
)

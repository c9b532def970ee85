"""int32-offset: small caches never show it; most real ones have blocks more than 2**31 bytes from their first.

The offset loses its high bits without becoming negative, so that a mutated target writes to a wrong block,
inside the memory of its case, and does not crash.
"""

from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.mutations.vllm_sources import COPY_BODY, MAMBA_UTILS, POSTPROCESS

DESTINATION = "dst_addr = state_base_addr + dest_block_id * state_block_stride"
CUT = "dst_addr = state_base_addr + (dest_block_id * state_block_stride & 0x7FFFFFFF)"

MUTATION = Mutation(
    name="int32-offset",
    summary="The byte offset of the destination block keeps only the 31 bits of a non-negative 32-bit number.",
    rewrites={
        "builtin": {
            "fused/copy.py": [
                [
                    Rewrite(
                        "locate",
                        "destination_block.to(tl.int64) * block_stride",
                        "(destination_block.to(tl.int64) * block_stride & 0x7FFFFFFF)",
                    )
                ]
            ]
        },
        "vllm": {
            MAMBA_UTILS: [
                [
                    Rewrite(COPY_BODY, DESTINATION, CUT),
                ],
                [
                    Rewrite(POSTPROCESS, f"{source}\n        {DESTINATION}", f"{source}\n        {CUT}")
                    for source in ("+ src_offset", "+ actual_src_block_id * state_block_stride")
                ],
            ]
        },
    },
)

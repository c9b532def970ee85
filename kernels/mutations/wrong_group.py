"""wrong-group: a fault of an early version of these kernels, which had one block table only."""

from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.mutations.vllm_sources import COPY_BODY, MAMBA_UTILS, POSTPROCESS

MUTATION = Mutation(
    name="wrong-group",
    summary="Every group reads the block table of group 0.",
    rewrites={
        "builtin": {"fused/context.py": [[Rewrite("FusedContext.__init__", "tables[group]", "tables[0]")]]},
        "vllm": {
            MAMBA_UTILS: [
                [Rewrite(COPY_BODY, "tl.load(block_table_ptrs_ptr + group_idx)", "tl.load(block_table_ptrs_ptr)")],
                [Rewrite(POSTPROCESS, "tl.load(block_table_ptrs_ptr + group_idx)", "tl.load(block_table_ptrs_ptr)")],
            ]
        },
    },
)

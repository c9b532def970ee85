"""wrong-group: the fault of an early version of these kernels, which knew one block table only."""

from harness.kernels.mutations.mutation import Mutation, Rewrite

MUTATION = Mutation(
    name="wrong-group",
    summary="Every group reads the block table of group 0.",
    rewrites={
        "builtin": {
            "fused/context.py": [
                [
                    Rewrite("FusedContext.__init__", "tables[group]", "tables[0]"),
                ]
            ],
        },
        "vllm": {
            "vllm/v1/worker/mamba_utils.py": [
                [
                    Rewrite(
                        "_copy_mamba_state_block",
                        "tl.load(block_table_ptrs_ptr + group_idx)",
                        "tl.load(block_table_ptrs_ptr)",
                    )
                ]
            ]
        },
    },
)

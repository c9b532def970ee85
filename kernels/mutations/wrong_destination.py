"""wrong-destination: the state never leaves its column, whatever block it was meant for."""

from harness.kernels.mutations.mutation import Mutation, Rewrite

MUTATION = Mutation(
    name="wrong-destination",
    summary="States are written to the block of the source column instead of the destination column.",
    rewrites={
        "builtin": {
            "fused/copy.py": [
                [
                    Rewrite(
                        "move_state",
                        "destination_block = tl.load(table + destination_column)",
                        "destination_block = tl.load(table + source_column)",
                    ),
                ]
            ],
        },
        "vllm": {
            "vllm/v1/worker/mamba_utils.py": [
                [
                    Rewrite(
                        "_copy_mamba_state_block",
                        "dest_block_id = tl.load(block_table_base + dst_col)",
                        "dest_block_id = tl.load(block_table_base + src_col)",
                    )
                ]
            ]
        },
    },
)

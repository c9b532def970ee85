"""list-cut-short: the list of a batch's copies has an entry for every state of every request that moves."""

from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.mutations.vllm_sources import MAMBA_UTILS

MUTATION = Mutation(
    name="list-cut-short",
    summary="The last copy of a list made on the host is left out, unless it is the only one.",
    rewrites={
        "builtin": {
            "fused/host.py": [
                [
                    Rewrite(
                        "HostSide.copy",
                        "batch_copy_kernel[(count, 1, 1)]",
                        "batch_copy_kernel[(max(count - 1, 1), 1, 1)]",
                    ),
                ]
            ]
        },
        "vllm": {
            MAMBA_UTILS: [
                [
                    Rewrite(
                        "do_mamba_copy_block",
                        "n = copy_bufs.offset",
                        "n = copy_bufs.offset - (copy_bufs.offset > 1)",
                    ),
                ]
            ]
        },
    },
    operations=("scalar-copy",),
)

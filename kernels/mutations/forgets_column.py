"""forgets-column: the column of a request that starts again may lie past the blocks that it has now."""

from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.mutations.vllm_sources import MAMBA_UTILS

MUTATION = Mutation(
    name="forgets-column",
    summary="The columns of resumed requests are not dropped before a step.",
    rewrites={
        "builtin": {
            "fused/host.py": [
                [
                    Rewrite("HostSide.preprocess", "(*finished, *preempted, *resumed)", "(*finished, *preempted)"),
                ]
            ]
        },
        "vllm": {
            MAMBA_UTILS: [
                [
                    Rewrite(
                        "cleanup_mamba_state_idx",
                        "chain(finished_req_ids, preempted_req_ids, resumed_req_ids)",
                        "chain(finished_req_ids, preempted_req_ids)",
                    ),
                ]
            ]
        },
    },
    operations=("preprocess",),
)

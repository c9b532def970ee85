"""count-stays-behind: the host plans the next step from the counts that postprocess copies back."""

from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.mutations.vllm_sources import MAMBA_UTILS

MUTATION = Mutation(
    name="count-stays-behind",
    summary="The accepted count of the first request is not copied back to the host.",
    rewrites={
        "builtin": {
            "fused/host.py": [
                [
                    Rewrite(
                        "HostSide.postprocess", "accepted_on_host[:num_requests]", "accepted_on_host[1:num_requests]"
                    ),
                    Rewrite("HostSide.postprocess", "accepted_out[:num_requests]", "accepted_out[1:num_requests]"),
                ]
            ]
        },
        "vllm": {
            MAMBA_UTILS: [
                [
                    Rewrite(
                        "postprocess_mamba_align_gpu",
                        "num_accepted_tokens_cpu_tensor[:num_reqs]",
                        "num_accepted_tokens_cpu_tensor[1:num_reqs]",
                    ),
                    Rewrite(
                        "postprocess_mamba_align_gpu",
                        "num_accepted_tokens_out[:num_reqs]",
                        "num_accepted_tokens_out[1:num_reqs]",
                    ),
                ]
            ]
        },
    },
    operations=("postprocess-entry",),
)

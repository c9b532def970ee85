"""stages-too-many: entries past the batch are values of an earlier step."""

from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.mutations.vllm_sources import MAMBA_UTILS, STAGE

MUTATION = Mutation(
    name="stages-too-many",
    summary="Staging sends whole views to the device, and not only the entries of the batch.",
    rewrites={
        "builtin": {
            "fused/host.py": [
                [
                    Rewrite(
                        "HostSide.stage",
                        "self.staged[name].copy_to_gpu(num_requests)",
                        "self.staged[name].copy_to_gpu()",
                    ),
                ]
            ]
        },
        "vllm": {
            MAMBA_UTILS: [
                [
                    Rewrite(
                        STAGE, "ctx.mamba_state_idx_buf.copy_to_gpu(num_reqs)", "ctx.mamba_state_idx_buf.copy_to_gpu()"
                    ),
                ]
            ]
        },
    },
    operations=("stage", "postprocess-entry"),
)

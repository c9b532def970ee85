"""late-host-write: usually the copy happens later, and nothing is wrong."""

from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.mutations.vllm_sources import MAMBA_UTILS, STAGE

MUTATION = Mutation(
    name="late-host-write",
    summary="Staging writes a view after it has started to send it to the device.",
    rewrites={
        "builtin": {
            "fused/host.py": [
                [
                    Rewrite(
                        "HostSide.stage",
                        "        for name in STAGED[:4]:\n            self.staged[name].copy_to_gpu(num_requests)\n",
                        "",
                    ),
                    Rewrite(
                        "HostSide.stage",
                        "        for row, request in enumerate(",
                        "        for name in STAGED[:4]:\n"
                        "            self.staged[name].copy_to_gpu(num_requests)\n"
                        "        for row, request in enumerate(",
                    ),
                ]
            ]
        },
        "vllm": {
            MAMBA_UTILS: [
                [
                    Rewrite(STAGE, "    ctx.mamba_state_idx_buf.copy_to_gpu(num_reqs)\n", ""),
                    Rewrite(
                        STAGE,
                        "    for i in range(num_reqs):\n",
                        "    ctx.mamba_state_idx_buf.copy_to_gpu(num_reqs)\n    for i in range(num_reqs):\n",
                    ),
                ]
            ]
        },
    },
    operations=("stage", "postprocess-entry"),
)

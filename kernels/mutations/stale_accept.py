"""stale-accept: other programs of the launch read the count that one program has just reset."""

from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.mutations.vllm_sources import MAMBA_UTILS

MUTATION = Mutation(
    name="stale-accept",
    summary="The V2 postprocess resets accepted counts that other programs have yet to read.",
    rewrites={
        "builtin": {
            "fused/postprocess.py": [
                [
                    Rewrite(
                        "_reset",
                        'tl.atomic_add(counters + ARRIVED, 1, sem="acq_rel") == tl.num_programs(0) - 1',
                        "tl.program_id(0) == 0",
                    ),
                ]
            ]
        },
        "vllm": {
            MAMBA_UTILS: [
                [
                    Rewrite(
                        "MambaSpecDecodeGPUContext.run_fused_postprocess_align",
                        "            num_accepted_tokens_snapshot,\n            state_idx_gpu",
                        "            num_accepted_tokens_gpu,\n            state_idx_gpu",
                    ),
                ]
            ]
        },
    },
    operations=("postprocess",),
)

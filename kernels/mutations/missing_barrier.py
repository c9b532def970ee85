"""missing-barrier: a shift to the left is right only as long as all warps happen to run in lockstep.

Only the total domain has such shifts: in the reachable one, the two columns of a move hold distinct blocks.
"""

from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.mutations.vllm_sources import MAMBA_UTILS

MUTATION = Mutation(
    name="missing-barrier",
    summary="The batch copy has no barrier between the loads and the stores of a step.",
    rewrites={
        "builtin": {"fused/batch_copy.py": [[Rewrite("_copy_steps", "        tl.debug_barrier()\n", "")]]},
        "vllm": {MAMBA_UTILS: [[Rewrite("batch_memcpy_kernel", "tl.debug_barrier()", "pass")]]},
    },
    operations=("scalar-copy",),
    domains=("total",),
)

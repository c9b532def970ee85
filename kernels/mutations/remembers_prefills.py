"""remembers-prefills: only after a whole decode does the next step continue in the column where this one ended."""

from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.mutations.vllm_sources import MAMBA_UTILS

MUTATION = Mutation(
    name="remembers-prefills",
    summary="In `all` mode the column of a request that did not decode is kept.",
    rewrites={
        "builtin": {"fused/columns.py": [[Rewrite("remember_decodes", "columns.pop(name, None)", "pass")]]},
        "vllm": {MAMBA_UTILS: [[Rewrite("postprocess_mamba_all", "mamba_state_idx.pop(req_id, None)", "pass")]]},
    },
    operations=("all-mode",),
)

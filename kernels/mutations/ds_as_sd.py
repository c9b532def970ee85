"""ds-as-sd: right only at bias 0 on dense rows, where both layouts are one run of bytes."""

from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.mutations.vllm_sources import COPY_BODY, MAMBA_UTILS, POSTPROCESS

MUTATION = Mutation(
    name="ds-as-sd",
    summary="A DS conv window is copied as one contiguous run of bytes, as if it were in SD layout.",
    rewrites={
        "builtin": {
            "fused/context.py": [
                [
                    Rewrite(
                        "_record",
                        "        extent = (runs - 1) * run_stride + window * unit\n",
                        "        extent = (runs - 1) * run_stride + window * unit\n"
                        "        unit, runs, run_stride = unit * runs, 1, window * unit * runs\n",
                    )
                ]
            ]
        },
        "vllm": {
            MAMBA_UTILS: [
                [
                    Rewrite(
                        COPY_BODY,
                        "if CONV_STATE_DIM_FIRST and is_conv_state:",
                        "if CONV_STATE_DIM_FIRST and is_conv_state:\n"
                        "        state_inner_size = tl.load(state_dim_row_count_ptr + state_idx).to(tl.int64)\n"
                        "    if CONV_STATE_DIM_FIRST and conv_width < 0:",
                    )
                ],
                [
                    Rewrite(
                        POSTPROCESS,
                        "if CONV_STATE_DIM_FIRST and is_conv_state:",
                        "if CONV_STATE_DIM_FIRST and is_conv_state:\n"
                        "        state_inner_size = tl.load(state_dim_row_count_ptr + state_idx).to(tl.int64)\n"
                        "    if CONV_STATE_DIM_FIRST and conv_width < 0:",
                    )
                ],
            ]
        },
    },
)

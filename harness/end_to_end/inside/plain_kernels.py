"""What the fused kernels do, in plain Python: for scripts that run where neither a GPU nor the harness is.

A state is copied from one column of a request's row in the block table to another. A window moves along by the bias; of
temporal states, the one that many columns further is taken.
"""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Callable, Mapping
from typing import Any

Arguments = Mapping[str, Any]


def plain_precopy(a: Arguments, states: int) -> None:
    """Before the forward pass: take each request's state along to the column that it writes now."""
    for row in _rows(a):
        source, target = int(a["src_col_ptr"][row]), int(a["mamba_state_idx_ptr"][row])
        if source >= 0 and source != target:
            for state in range(states):
                _copy_state(a, state, row, source, target, int(a["token_bias_ptr"][row]))


def plain_postprocess(a: Arguments, states: int) -> None:
    """After it: keep the state at the last block boundary that the step has passed."""
    size = int(a["block_size"])
    accepted = [int(count) for count in a["num_accepted_tokens_ptr"]]
    for row in _rows(a):
        computed = int(a["num_computed_tokens_ptr"][row])
        if a["PRECOMPUTED_NEW_COMPUTED"]:
            new, running = computed, computed - accepted[row] + 1
        else:
            running = computed + int(a["num_scheduled_tokens_ptr"][row]) - int(a["num_draft_tokens_ptr"][row])
            new = running + accepted[row] - 1
        border = new // size * size
        if border < running:
            continue
        source, target, bias = int(a["mamba_state_idx_ptr"][row]), border // size - 1, border - running
        if source == target:
            a["num_accepted_tokens_out_ptr"][row] = 1
        if source != target or bias:
            for state in range(states):
                _copy_state(a, state, row, source, target, bias)


PLAIN_KERNELS: dict[str, Callable[[Arguments, int], None]] = {
    "precopy_mamba_align_fused_kernel": plain_precopy,
    "postprocess_mamba_fused_kernel": plain_postprocess,
}


class PlainKernel:
    """Stands where a kernel stood: `kernel[grid](...)`. The second size of the grid is the number of states."""

    def __init__(self, kernel: Callable[..., Any], run: Callable[[Arguments, int], None]) -> None:
        self._signature, self._run = inspect.signature(kernel), run

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        def launch(*args: Any, **kwargs: Any) -> None:
            options = {name: value for name, value in kwargs.items() if name in self._signature.parameters}
            bound = self._signature.bind(*args, **options)
            bound.apply_defaults()
            self._run(bound.arguments, grid[1])

        return launch


def _rows(a: Arguments) -> list[int]:
    rows = range(int(a["num_reqs"]))
    return [row for row in ([int(a["idx_mapping_ptr"][i]) for i in rows] if a["HAS_IDX_MAPPING"] else rows) if row >= 0]


def _copy_state(a: Arguments, state: int, row: int, source: int, target: int, bias: int) -> None:
    table = int(a["block_table_ptrs_ptr"][int(a["state_group_indices_ptr"][state])])
    first, stride = int(a["state_base_addrs_ptr"][state]), int(a["state_block_strides_ptr"][state])
    item, inner = int(a["state_elem_sizes_ptr"][state]), int(a["state_inner_sizes_ptr"][state])
    width = int(a["state_conv_widths_ptr"][state])

    def address(column: int) -> int:
        cell = table + 4 * (row * int(a["block_table_stride_req"]) + column)
        return first + ctypes.c_int32.from_address(cell).value * stride

    if width:
        token = inner * item
        ctypes.memmove(address(target), address(source) + bias * token, (width - bias) * token)
    else:
        ctypes.memmove(address(target), address(source + bias), inner * item)

"""A launch of the V2 host code is a call of one of its kernels: here, what the kernel does to counts and tables.

Without a GPU driver the release's kernels are plain functions that cannot be launched. Each is implemented again here,
as far as the symbolic device needs it: request slots, counts, tables. Kernels that only arrange tokens, positions and
logits do nothing. Addresses are used as a kernel uses them, so a wrong table address in the host code is used too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from ctypes import memmove, memset
from typing import Any

from harness.kernels.targets.vllm.scheduling.loading import module
from harness.kernels.targets.vllm.scheduling.rules_v2 import GPU
from harness.refusal import UnknownTarget

_INT32 = 4


class _Kernel:
    """Takes the place of a kernel: `kernel[grid](...)` runs `body` on the arguments by name."""

    def __init__(self, body: Callable[[Any, dict[str, Any]], None], names: list[str]) -> None:
        self.body, self.names = body, names

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        def launch(*values: Any, **named: Any) -> None:
            self.body(grid, {**dict(zip(self.names, values, strict=False)), **named})

        return launch


def _apply_write(grid: Any, given: dict[str, Any]) -> None:
    """Write rows that the host staged, to one tensor or to several by their addresses."""
    contents, output, stride = given["write_contents_ptr"], given["output_ptr"], given["output_stride"]
    item = contents.element_size()
    source = contents.data_ptr()
    ends = given["write_cu_lens_ptr"].tolist()
    several = given["MULTI_GROUP"]
    if several:
        bases, strides = output.tolist(), stride.tolist()
        groups = given["write_group_ids_ptr"].tolist()
    else:
        base = output.data_ptr()
    begin = 0
    rows, starts = given["write_indices_ptr"].tolist(), given["write_starts_ptr"].tolist()
    for i in range(grid[0]):
        if several:
            base, stride = bases[groups[i]], strides[groups[i]]
        end = ends[i]
        memmove(base + (rows[i] * stride + starts[i]) * item, source + begin * item, (end - begin) * item)
        begin = end


def _gather_block_tables(grid: Any, given: dict[str, Any]) -> None:
    """Copy rows of request slots to rows of the batch; rows past the batch become null blocks."""
    slots = given["batch_idx_to_req_idx"].tolist()
    counts = given["num_blocks_ptr"].tolist()
    strides = given["block_table_strides"].tolist()
    sources, destinations = given["src_block_table_ptrs"].tolist(), given["dst_block_table_ptrs"].tolist()
    groups, rows = grid
    batch = given["num_reqs"]
    for group in range(groups):
        width, count = strides[group] * _INT32, counts[group]
        source, destination = sources[group], destinations[group]
        for row in range(rows):
            if row >= batch:
                memset(destination + row * width, 0, width)
                continue
            slot = slots[row]
            memmove(destination + row * width, source + slot * width, count[slot] * _INT32)


def _prepare_pos_seq_lens(grid: Any, given: dict[str, Any]) -> None:
    slots, lengths = given["idx_mapping_ptr"].numpy(), given["seq_lens_ptr"].numpy()
    starts = given["query_start_loc_ptr"].numpy()
    count = grid[0] - 1
    lengths[:count] = given["num_computed_tokens_ptr"].numpy()[slots[:count]]
    lengths[:count] += starts[1 : count + 1] - starts[:count]
    lengths[count:] = 0


def _get_num_sampled_and_rejected(grid: Any, given: dict[str, Any]) -> None:
    count = grid[0]
    slots = given["idx_mapping_ptr"].numpy()[:count]
    sampled, rejected = given["num_sampled_ptr"].numpy(), given["num_rejected_ptr"].numpy()
    chunked = given["seq_lens_ptr"].numpy()[:count] < given["prefill_len_ptr"].numpy()[slots]
    starts = given["cu_num_logits_ptr"].numpy()
    sampled[:count][chunked] = 0
    rejected[:count] = starts[1 : count + 1] - starts[:count] - sampled[:count]
    rejected[:count][chunked] = 0


def _post_update(grid: Any, given: dict[str, Any]) -> None:
    computed, totals = given["num_computed_tokens_ptr"].numpy(), given["total_len_ptr"].numpy()
    sampled, rejected = given["num_sampled_ptr"].tolist(), given["num_rejected_ptr"].tolist()
    starts = given["query_start_loc_ptr"].tolist()
    slots = given["idx_mapping_ptr"].tolist()
    for row in range(grid[0]):
        slot = slots[row]
        if slot >= 0:
            totals[slot] += sampled[row]
            computed[slot] += starts[row + 1] - starts[row] - rejected[row]


def _scatter_num_accepted(grid: Any, given: dict[str, Any]) -> None:
    accepted, sampled = given["num_accepted_ptr"].numpy(), given["num_sampled_ptr"].tolist()
    slots = given["idx_mapping_ptr"].tolist()
    for row in range(grid[0]):
        if slots[row] >= 0:
            accepted[slots[row]] = max(sampled[row], 1)


def _fill_num_accepted(grid: Any, given: dict[str, Any]) -> None:
    accepted = given["num_accepted_ptr"].numpy()
    for slot in given["idx_mapping_ptr"].tolist()[: grid[0]]:
        if slot >= 0:
            accepted[slot] = given["num_sampled"]


def _advance(grid: Any, given: dict[str, Any]) -> None:
    """docs/domain.md, section 4."""
    size = given["MAMBA_BLOCK_SIZE"]
    columns, accepted = given["state_idx_ptr"].numpy(), given["num_accepted_tokens_ptr"].numpy()
    sources, biases = given["src_col_ptr"].numpy(), given["src_off_ptr"].numpy()
    computed, starts = given["num_computed_tokens_ptr"].numpy(), given["query_start_loc_ptr"].tolist()
    for row, slot in enumerate(given["idx_mapping_ptr"].tolist()[: given["num_reqs"]]):
        before = int(columns[slot])
        sources[slot], biases[slot] = before, max(int(accepted[slot]) - 1, 0)
        column = -(-(int(computed[slot]) + starts[row + 1] - starts[row]) // size) - 1
        columns[slot] = column
        if before >= 0 and before != column:
            accepted[slot] = 1


def _nothing(grid: Any, given: dict[str, Any]) -> None:
    """Arranges tokens, positions or logits, which a symbolic device does not have."""


_BODIES: dict[str, dict[str, Callable[[Any, dict[str, Any]], None]]] = {
    f"{GPU}.buffer_utils": {"_apply_write_kernel": _apply_write},
    f"{GPU}.block_table": {
        "_gather_block_tables_kernel": _gather_block_tables,
        "_compute_slot_mappings_kernel": _nothing,
    },
    f"{GPU}.input_batch": {
        "_prepare_prefill_inputs_kernel": _nothing,
        "_prepare_pos_seq_lens_kernel": _prepare_pos_seq_lens,
        "_combine_sampled_and_draft_tokens_kernel": _nothing,
        "_expand_idx_mapping_kernel": _nothing,
        "_get_num_sampled_and_rejected_kernel": _get_num_sampled_and_rejected,
        "_post_update_kernel": _post_update,
    },
    f"{GPU}.model_states.mamba_hybrid": {
        "_scatter_num_accepted_kernel": _scatter_num_accepted,
        "_fill_num_accepted_kernel": _fill_num_accepted,
        "preprocess_mamba_align_fused_kernel": _advance,
    },
}


_LATER = ("_fill_num_accepted_kernel",)
"""Kernels that replaced an operation of torch (0.28)."""


class _Buffer:
    """Memory that host and device share, as on a GPU that reads pinned memory of the host."""

    def __init__(self, size: Any, dtype: Any) -> None:
        import torch

        self.cpu = torch.zeros(size, dtype=dtype)
        self.np = self.cpu.numpy()

    def uva(self, n: int | None = None) -> Any:
        return self.cpu if n is None else self.cpu[:n]

    @property
    def _uva(self) -> Any:
        return self.cpu


class _PlainBuffer:
    """The same, for releases where `uva` is the tensor itself (before 0.30)."""

    def __init__(self, size: Any, dtype: Any) -> None:
        import torch

        self.uva = self.cpu = torch.zeros(size, dtype=dtype)
        self.np = self.cpu.numpy()


def require_launches() -> None:
    """Raise UnknownTarget if the loaded release lacks one of these kernels."""
    for place, bodies in _BODIES.items():
        for name in bodies:
            if not hasattr(module(place), name) and name not in _LATER:
                raise UnknownTarget(f"{place} has no {name}")


def replace_launches() -> None:
    """Replace the kernels of the loaded release's V2 host code by these bodies. Raises UnknownTarget."""
    require_launches()
    for place, bodies in _BODIES.items():
        holder = module(place)
        for name, body in bodies.items():
            kernel = getattr(holder, name, None)
            if kernel is None:
                continue
            if not isinstance(kernel, _Kernel):
                function = getattr(kernel, "fn", kernel)
                setattr(holder, name, _Kernel(body, list(inspect.signature(function).parameters)))
    buffers = module(f"{GPU}.buffer_utils")
    if buffers.UvaBuffer not in (_Buffer, _PlainBuffer):
        buffers.UvaBuffer = _Buffer if hasattr(buffers.UvaBuffer, "uva") else _PlainBuffer
    triton = module(f"{GPU}.input_batch").triton
    if not hasattr(triton, "next_power_of_2"):
        triton.next_power_of_2 = lambda number: 1 << max(number - 1, 0).bit_length()

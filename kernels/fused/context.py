"""A context binds the fused kernels to the tensors that a model runner owns for its lifetime.

It gathers once, on the host, what the kernels need to know about every state (`record.py`), so that a step
costs one launch and no transfer between host and device. All arguments are checked: for kernels that
compute addresses from numbers, a wrong stride or type damages memory far away.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from harness.kernels.fused.accepted import set_accepted_kernel
from harness.kernels.fused.advance import advance_kernel
from harness.kernels.fused.postprocess import postprocess_kernel
from harness.kernels.fused.precopy import precopy_kernel
from harness.kernels.fused.record import (
    ADDRESS,
    BLOCK_STRIDE,
    COUNTERS,
    GAPLESS,
    GAPPED,
    LANE_BYTES,
    ONE_RUN,
    RECORD_FIELDS,
    RUN_STRIDE,
    RUNS,
    TABLE,
    TEMPORAL,
    TILE_ADDRESS,
    TILE_BLOCK_STRIDE,
    TILE_LEFT,
    TILE_NUMBER,
    TILE_STATE,
    TILE_TABLE,
    TILE_UNIT,
    TILES,
    UNIT,
    WINDOW,
)

LANES = 2048
"""Lanes of a program that copies; each copies 8 bytes of a tile."""
WARPS = 4
"""Warps of a program that copies."""
PROGRAMS_EACH = 3
"""Programs that copy, per multiprocessor of a GPU: as many as fit at a time, with these registers."""
REGISTERS = 168
"""Maximum registers of a thread of such a program: with more, some programs would start only when others end."""
PROGRAMS_ON_CPU = 4
"""Programs that copy where there is no GPU to fill."""
DECIDED = 256
"""Number of requests that a program which copies decides for at a time."""
MANY_TIMES = 4
"""Factor: so many times as many requests are checked together to find out whether any of them moves."""
ROWS = 128
"""Number of requests that one program decides for where no state moves."""

Allocate = Callable[[str, Sequence[int], torch.dtype], torch.Tensor]
"""`allocate(name, shape, dtype)` gives device memory with arbitrary contents."""


@dataclass(frozen=True)
class BoundState:
    """One state tensor, `[num_blocks, ...]`, and how its blocks move."""

    tensor: torch.Tensor
    kind: Literal["conv", "temporal"]


class FusedContext:
    """The fused kernels over the states and block tables of one model.

    `states[group]` lists the states of all layers of a group; `tables[group]` is its int32 table, one row per
    request slot. `block_size` is in tokens. Unless `bind_now`, nothing may be launched before `bind`.

    `programs` is how many programs share the copies of a step: by default as many as the device holds. The result does
    not depend on it, nor on `lanes`, an eighth of a tile's bytes, and `decided`, the maximum number of requests
    decided for at a time; both are powers of two.

    Raises ValueError for anything the kernels do not support.
    """

    def __init__(
        self,
        states: Sequence[Sequence[BoundState]],
        tables: Sequence[torch.Tensor],
        *,
        conv_layout: Literal["SD", "DS"],
        block_size: int,
        allocate: Allocate,
        programs: int | None = None,
        lanes: int = LANES,
        decided: int = DECIDED,
        bind_now: bool = True,
    ) -> None:
        if block_size < 1:
            raise ValueError(f"block size {block_size}: it must be at least 1")
        if programs is not None and programs < 1:
            raise ValueError(f"{programs} programs: there must be at least 1")
        for name, number in (("lanes", lanes), ("decided", decided)):
            if number < 1 or number & (number - 1):
                raise ValueError(f"{name} is {number}, which is not a power of two")
        if not tables or len(tables) != len(states):
            raise ValueError(f"{len(states)} groups of states and {len(tables)} block tables")
        if not any(states):
            raise ValueError("there are no states to move")
        self._bound = states, tables  # the kernels know only their addresses: keep them alive
        self._device = tables[0].device
        self._table_stride = common_row_stride(tables, self._device)
        self._table_rows = min(table.size(0) for table in tables)
        self._block_size = block_size
        self._programs = programs or programs_of(self._device)
        self._lanes, self._decided = lanes, decided
        self._facts = [
            _record(f"group {group} state {index}", state, conv_layout, tables[group], self._device, lanes)
            for group, members in enumerate(states)
            for index, state in enumerate(members)
        ]
        self._tiles_each = sum(record[TILES.value] for record in self._facts)
        if self._tiles_each * decided + 3 * self._programs >= 2**31:
            raise ValueError(f"{decided} requests of {self._tiles_each} tiles each are more than 32 bits can count")
        self._records = allocate("records", (len(self._facts), RECORD_FIELDS.value), torch.int64)
        self._tiles = allocate("tiles", (self._tiles_each, RECORD_FIELDS.value), torch.int64)
        self._is_bound = False
        self._counters = allocate("counters", (-(-self._table_rows // decided), COUNTERS.value), torch.int32)
        self._counters.zero_()
        self.accepted_out = allocate("accepted_out", (self._table_rows,), torch.int32)
        """int32 `[table rows]`: the result of `postprocess`, in batch order."""
        self.accepted_out.zero_()
        if bind_now:
            self.bind()

    def bind(self) -> None:
        """Pass all addresses to the kernels; a second call does nothing."""
        if not self._is_bound:
            self._records.copy_(torch.tensor(self._facts, dtype=torch.int64))
            self._tiles.copy_(_tile_records(self._facts, self._lanes * LANE_BYTES.value))
            self._is_bound = True

    def postprocess(
        self,
        num_requests: int,
        accepted: torch.Tensor,
        state_column: torch.Tensor,
        scheduled: torch.Tensor,
        computed: torch.Tensor,
        draft: torch.Tensor,
    ) -> None:
        """Move the states of the first `num_requests` batch rows; the counts go to `accepted_out` (V1).

        Arrays are int32 with at least `num_requests` entries, in batch order. `accepted` is unchanged, and so is
        `accepted_out` past the batch.
        """
        self._check_batch(num_requests)
        for name, array in (
            ("accepted", accepted),
            ("state_column", state_column),
            ("scheduled", scheduled),
            ("computed", computed),
            ("draft", draft),
        ):
            self._check_array(name, array, num_requests)
        if num_requests == 0:
            return
        postprocess_kernel[(self._programs, 1, 1)](
            accepted,
            self.accepted_out,
            state_column,
            computed,
            scheduled,
            draft,
            None,
            self._counters,
            self._records,
            self._tiles,
            num_requests,
            self._block_size,
            self._table_stride,
            self._tiles_each,
            IN_PLACE=False,
            ROWS=self._decided,
            MANY_ROWS=MANY_TIMES * self._decided,
            LANES=self._lanes,
            num_warps=WARPS,
            maxnreg=REGISTERS,
        )

    def postprocess_in_place(
        self,
        num_requests: int,
        accepted: torch.Tensor,
        state_column: torch.Tensor,
        new_computed: torch.Tensor,
        mapping: torch.Tensor,
    ) -> None:
        """Move the states of the requests that `mapping` names and update `accepted` in place (V2).

        `mapping` is int32 or int64 with at least `num_requests` entries: batch row to request slot, negative
        to skip the row. The other arrays are int32, by slot, with an entry for each row of the block tables.
        """
        self._check_batch(num_requests)
        self._check_mapping(mapping, num_requests)
        self._check_array("accepted", accepted, self._table_rows)
        self._check_array("state_column", state_column, self._table_rows)
        self._check_array("new_computed", new_computed, self._table_rows)
        if num_requests == 0:
            return
        postprocess_kernel[(self._programs, 1, 1)](
            accepted,
            None,
            state_column,
            new_computed,
            None,
            None,
            mapping,
            self._counters,
            self._records,
            self._tiles,
            num_requests,
            self._block_size,
            self._table_stride,
            self._tiles_each,
            IN_PLACE=True,
            ROWS=self._decided,
            MANY_ROWS=MANY_TIMES * self._decided,
            LANES=self._lanes,
            num_warps=WARPS,
            maxnreg=REGISTERS,
        )

    def precopy(
        self,
        num_requests: int,
        source_column: torch.Tensor,
        destination_column: torch.Tensor,
        bias: torch.Tensor,
        mapping: torch.Tensor | None = None,
    ) -> None:
        """Move running states into new blocks: in batch order (V1), or by slot through `mapping` (V2).

        Arrays are int32 with at least `num_requests` entries, or with a mapping one for each row of the block
        tables; `mapping` is as in `postprocess_in_place`.
        """
        self._check_batch(num_requests)
        if mapping is not None:
            self._check_mapping(mapping, num_requests)
        needed = num_requests if mapping is None else self._table_rows
        self._check_array("source_column", source_column, needed)
        self._check_array("destination_column", destination_column, needed)
        self._check_array("bias", bias, needed)
        if num_requests == 0:
            return
        precopy_kernel[(self._programs, 1, 1)](
            source_column,
            destination_column,
            bias,
            mapping,
            self._counters,
            self._records,
            self._tiles,
            num_requests,
            self._table_stride,
            self._tiles_each,
            HAS_MAPPING=mapping is not None,
            ROWS=self._decided,
            MANY_ROWS=MANY_TIMES * self._decided,
            LANES=self._lanes,
            num_warps=WARPS,
            maxnreg=REGISTERS,
        )

    def advance(
        self,
        num_requests: int,
        mapping: torch.Tensor,
        query_start: torch.Tensor,
        computed: torch.Tensor,
        state_column: torch.Tensor,
        accepted: torch.Tensor,
        source_column: torch.Tensor,
        bias: torch.Tensor,
    ) -> None:
        """Move requests to the columns of their next running states, before `precopy` (V2).

        `mapping` is as in `postprocess_in_place`, but skips no row; `query_start` has `num_requests + 1` entries. The
        others are by slot: `source_column` and `bias` are written for `precopy`, `state_column` and `accepted` updated.
        """
        self._check_batch(num_requests)
        self._check_mapping(mapping, num_requests)
        if num_requests == 0:
            return
        self._check_array("query_start", query_start, num_requests + 1)
        for name, array in (
            ("computed", computed),
            ("state_column", state_column),
            ("accepted", accepted),
            ("source_column", source_column),
            ("bias", bias),
        ):
            self._check_array(name, array, self._table_rows)
        advance_kernel[(-(-num_requests // ROWS), 1, 1)](
            mapping,
            query_start,
            computed,
            state_column,
            accepted,
            source_column,
            bias,
            num_requests,
            self._block_size,
            ROWS=ROWS,
        )

    def scatter_accepted(self, accepted: torch.Tensor, sampled: torch.Tensor, mapping: torch.Tensor) -> None:
        """Set the accepted count of each batch row's request to what it `sampled`, at least 1 (V2).

        `sampled` is int32 by batch row, the others as in `postprocess_in_place`; the batch is as long as `mapping`.
        """
        num_requests = mapping.numel()
        self._check_array("sampled", sampled, num_requests)
        self._set_accepted(num_requests, accepted, sampled, 1, mapping)

    def fill_accepted(self, accepted: torch.Tensor, number: int, mapping: torch.Tensor) -> None:
        """Set the accepted counts of the requests that `mapping` names to `number`, at least 1 (V2)."""
        self._set_accepted(mapping.numel(), accepted, None, number, mapping)

    def _set_accepted(
        self,
        num_requests: int,
        accepted: torch.Tensor,
        sampled: torch.Tensor | None,
        number: int,
        mapping: torch.Tensor,
    ) -> None:
        self._check_batch(num_requests)
        self._check_mapping(mapping, num_requests)
        self._check_array("accepted", accepted, self._table_rows)
        if num_requests:
            set_accepted_kernel[(-(-num_requests // ROWS), 1, 1)](
                mapping, sampled, number, accepted, num_requests, HAS_SAMPLED=sampled is not None, ROWS=ROWS
            )

    def _check_batch(self, num_requests: int) -> None:
        if not 0 <= num_requests <= self._table_rows:
            raise ValueError(f"{num_requests} requests, but the block tables have {self._table_rows} rows")

    def _check_array(self, name: str, array: torch.Tensor, needed: int) -> None:
        check_vector(name, array, (torch.int32,), needed, self._device)

    def _check_mapping(self, mapping: torch.Tensor, num_requests: int) -> None:
        check_vector("mapping", mapping, (torch.int32, torch.int64), num_requests, self._device)


def programs_of(device: torch.device) -> int:
    """The number of programs that share the copies of a step on this device."""
    if device.type != "cuda":
        return PROGRAMS_ON_CPU
    return PROGRAMS_EACH * torch.cuda.get_device_properties(device).multi_processor_count


def check_vector(
    name: str, array: torch.Tensor, dtypes: Sequence[torch.dtype], needed: int, device: torch.device
) -> None:
    if array.dtype not in dtypes:
        raise ValueError(f"{name} is {array.dtype}, not {' or '.join(map(str, dtypes))}")
    if array.device != device:
        raise ValueError(f"{name} is on {array.device}, the block tables are on {device}")
    shape = array.shape
    if len(shape) != 1 or not array.is_contiguous():
        raise ValueError(f"{name} has shape {tuple(shape)}, strides {array.stride()}: not a vector")
    if shape[0] < needed:
        raise ValueError(f"{name} has {shape[0]} entries, {needed} are needed")


def common_row_stride(tables: Sequence[torch.Tensor], device: torch.device) -> int:
    """Elements from one row of a block table to the next, which all tables must share."""
    for group, table in enumerate(tables):
        if table.dtype != torch.int32 or table.dim() != 2:
            raise ValueError(f"block table {group} is {table.dim()}-D {table.dtype}, not 2-D torch.int32")
        if table.device != device:
            raise ValueError(f"block table {group} is on {table.device}, block table 0 on {device}")
        if table.size(1) > 1 and table.stride(1) != 1:
            raise ValueError(f"columns of block table {group} are {table.stride(1)} elements apart, not 1")
        if table.size(0) > 1 and table.stride(0) < table.size(1):
            raise ValueError(f"rows of block table {group} overlap: row stride {table.stride(0)}")
        if table.stride(0) != tables[0].stride(0):
            raise ValueError(
                f"block tables differ in row stride: {tables[0].stride(0)} in table 0, "
                f"{table.stride(0)} in table {group}"
            )
    return tables[0].stride(0)


def _record(
    name: str,
    state: BoundState,
    conv_layout: Literal["SD", "DS"],
    table: torch.Tensor,
    device: torch.device,
    lanes: int,
) -> list[int]:
    """The record of one state. Only here are strides converted to bytes."""
    tensor = state.tensor
    item = tensor.element_size()
    if tensor.device != device:
        raise ValueError(f"{name} is on {tensor.device}, the block tables are on {device}")
    if item not in (1, 2, 4, 8):
        raise ValueError(f"{name} has elements of {item} bytes, not 1, 2, 4 or 8")
    if tensor.data_ptr() % item:
        raise ValueError(f"{name} starts at an address that is not a multiple of its element size {item}")
    if tensor.numel() == 0:
        raise ValueError(f"{name} is empty: shape {tuple(tensor.shape)}")
    if state.kind == "temporal":
        if tensor.dim() < 2:
            raise ValueError(f"{name}: a temporal state has at least one inner dimension, this one has none")
        _check_dense(name, tensor, 1)
        unit = math.prod(tensor.shape[1:]) * item
        window, runs, run_stride, extent = 0, 1, unit, unit
    elif tensor.dim() != 3:
        raise ValueError(f"{name}: a conv state has 3 dimensions, this one has {tensor.dim()}")
    elif conv_layout == "SD":
        _check_dense(name, tensor, 1)
        window, unit = tensor.size(1), tensor.size(2) * item
        runs, run_stride, extent = 1, window * unit, window * unit
    else:
        _check_dense(name, tensor, 2)
        runs, window = tensor.size(1), tensor.size(2)
        unit, run_stride = item, tensor.stride(1) * item if runs > 1 else window * item
        if runs > 1 and run_stride < window * unit:
            raise ValueError(f"{name}: rows of {window * unit} bytes overlap at stride {run_stride}")
        extent = (runs - 1) * run_stride + window * unit
    block_stride = tensor.stride(0) * item
    if tensor.size(0) > 1 and block_stride < extent:
        raise ValueError(f"{name}: blocks of {extent} bytes overlap at stride {block_stride}")
    addresses = signed(tensor.data_ptr()), signed(table.data_ptr())
    tiles = -(-runs * max(window, 1) * unit // (lanes * LANE_BYTES.value))
    return [addresses[0], block_stride, window, unit, runs, run_stride, addresses[1], tiles]


def _tile_records(records: Sequence[Sequence[int]], tile_bytes: int) -> torch.Tensor:
    """The records of all tiles of a request, from those of the states."""
    states = torch.tensor(records, dtype=torch.int64)
    counts = states[:, TILES.value]
    # Windows come first. Some take long, and whoever has one of these claims fewer of the others.
    order = (states[:, WINDOW.value] == 0).to(torch.int64).argsort(stable=True)
    counts = counts[order]
    place = torch.arange(len(records)).repeat_interleave(counts)
    number = torch.arange(len(place)) - (counts.cumsum(0) - counts)[place]
    state = order[place]
    windows, units, runs, run_strides = states[:, [WINDOW.value, UNIT.value, RUNS.value, RUN_STRIDE.value]].T
    kinds = torch.where(run_strides == windows * units, GAPLESS.value, GAPPED.value)
    kinds[runs == 1] = ONE_RUN.value
    kinds[windows == 0] = TEMPORAL.value
    tiles = torch.zeros((len(state), RECORD_FIELDS.value), dtype=torch.int64)
    tiles[:, TILE_ADDRESS.value] = states[state, ADDRESS.value] + number * tile_bytes
    tiles[:, TILE_BLOCK_STRIDE.value] = states[state, BLOCK_STRIDE.value]
    tiles[:, TILE_TABLE.value] = states[state, TABLE.value]
    tiles[:, TILE_LEFT.value] = (runs * windows.clamp(min=1) * units)[state] - number * tile_bytes
    tiles[:, TILE_UNIT.value] = (torch.where(windows > 0, units, 0) * 4 + kinds)[state]
    tiles[:, TILE_STATE.value] = state
    tiles[:, TILE_NUMBER.value] = number
    return tiles


def _check_dense(name: str, tensor: torch.Tensor, first: int) -> None:
    """Dimensions from `first` on must be contiguous; the stride of a dimension of size 1 does not matter."""
    expected = 1
    for dimension in range(tensor.dim() - 1, first - 1, -1):
        size, stride = tensor.size(dimension), tensor.stride(dimension)
        if size > 1 and stride != expected:
            raise ValueError(f"{name}: stride of dimension {dimension} is {stride}, contiguous is {expected}")
        expected *= size


def signed(address: int) -> int:
    """The signed 64-bit number with the bits of an unsigned address."""
    return address - 2**64 if address >= 2**63 else address

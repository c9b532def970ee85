"""A lookup binds the aligned-indices kernel to block tables in batch order, once for the lifetime of a model runner."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from harness.kernels.fused.context import Allocate, check_vector, common_row_stride, signed
from harness.kernels.fused.indices import aligned_indices_kernel

ROWS = 32
"""Batch rows that one program looks up."""


class IndexLookup:
    """`tables[group]` are int32 and in batch order; `columns` is how many a request may use, `1 + num_spec`.

    Raises ValueError for tables that the kernel does not support.
    """

    def __init__(self, tables: Sequence[torch.Tensor], *, columns: int, block_size: int, allocate: Allocate) -> None:
        self._bound = tables  # the kernel knows only their addresses: keep them alive
        self._device = tables[0].device
        self._table_stride = common_row_stride(tables, self._device)
        self._rows = min(table.size(0) for table in tables)
        self._block_size = block_size
        self._columns = columns
        self._addresses = allocate("table addresses", (len(tables),), torch.int64)
        self._addresses.copy_(torch.tensor([signed(table.data_ptr()) for table in tables], dtype=torch.int64))
        self.indices = allocate("aligned_indices", (len(tables), self._rows, columns), torch.int32)
        """int32 `[groups, rows, columns]`: the result of `look_up`; entries past the batch are unchanged."""
        self.indices.zero_()

    def look_up(self, num_requests: int, lengths: torch.Tensor) -> torch.Tensor:
        """The ids of `columns` blocks of each of the first `num_requests` batch rows, for all groups in one launch.

        `lengths`, int32 by batch row, are in tokens, including those of the step itself.
        """
        if not 0 <= num_requests <= self._rows:
            raise ValueError(f"{num_requests} requests, but the block tables have {self._rows} rows")
        check_vector("lengths", lengths, (torch.int32,), num_requests, self._device)
        if num_requests:
            aligned_indices_kernel[(-(-num_requests // ROWS), self.indices.size(0), 1)](
                self._addresses,
                lengths,
                self.indices,
                self._table_stride,
                self.indices.stride(0),
                num_requests,
                self._block_size,
                COLUMNS=self._columns,
                LANES=1 << (self._columns - 1).bit_length(),
                ROWS=ROWS,
            )
        return self.indices[:, :num_requests]

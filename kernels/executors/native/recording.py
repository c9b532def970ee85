"""The recorder keeps what a launch loads and stores, for the race oracle.

Compiled code appends to memory that is reserved once and costs nothing until it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harness.accesses import RecordedLaunch
from harness.code_lines import CodeLine
from harness.kernels.executors.base import ExecutorCannot
from harness.kernels.executors.native import abi
from harness.kernels.executors.native.reserve import reserve

if TYPE_CHECKING:
    from harness.kernels.executors.native.variant import KernelVariant

RECORD_CAPACITY = 1 << 22
STORED_CAPACITY = 1 << 30


class Recorder:
    """The record of one executor; `record` is its watch record."""

    def __init__(self, record: np.ndarray) -> None:
        self._watch = record
        self._records = reserve(RECORD_CAPACITY * abi.ACCESS_WORDS * abi.WORD).view(np.int64)
        self._stored = reserve(STORED_CAPACITY)
        record[abi.RECORD_CAPACITY] = RECORD_CAPACITY
        record[abi.RECORDS] = self._records.ctypes.data
        record[abi.STORED_CAPACITY] = STORED_CAPACITY
        record[abi.STORED] = self._stored.ctypes.data

    def begin(self) -> None:
        """Forget everything: a launch comes next."""
        self._watch[abi.RECORD_COUNT] = 0
        self._watch[abi.STORED_SIZE] = 0

    def launch(
        self, variant: KernelVariant, grid: tuple[int, int, int], base: int, launched: tuple[CodeLine, ...] = ()
    ) -> RecordedLaunch:
        """The accesses of the launch; `base` is the address of the arena, `launched` the host's lines that launched it.
        Raises ExecutorCannot for too many."""
        count, stored = int(self._watch[abi.RECORD_COUNT]), int(self._watch[abi.STORED_SIZE])
        if count > RECORD_CAPACITY or stored > STORED_CAPACITY:
            raise ExecutorCannot(f"a launch of {variant.name} made more accesses than can be recorded ({count})")
        table = self._records[: count * abi.ACCESS_WORDS].reshape(count, abi.ACCESS_WORDS).T.copy()
        used = np.array([site.used for site in variant.sites], dtype=bool)[table[abi.ACCESS_SITE]]
        if not used.all():
            table = table[:, used]
        return RecordedLaunch(
            grid,
            variant.sources,
            source=table[abi.ACCESS_SITE],
            program=table[abi.ACCESS_PROGRAM],
            epoch=table[abi.ACCESS_EPOCH],
            offset=(table[abi.ACCESS_ADDRESS].view(np.uint64) - np.uint64(base)).view(np.int64),
            lane=table[abi.ACCESS_LANE],
            count=table[abi.ACCESS_COUNT],
            stored_at=table[abi.ACCESS_STORED],
            stored=self._stored[:stored].copy(),
            launched=launched,
        )

"""The arguments of a sequence: the integer arrays that a runner keeps on the device, in the arena of the sequence.

Entries are by request slot; those of the mapping, the query starts and the sampled tokens by batch row. Entries that a
step does not set keep their earlier values, as in production. There are guards around each array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.kernels.executors.base import AccessSpan, Arena
from harness.memory import poison_bytes
from harness.memory.plan import ALIGNMENT, GUARD

if TYPE_CHECKING:
    import torch

_WRITTEN_BY_V2 = ("accepted", "state_column", "source_column", "bias")
_READ_ONLY = ("scheduled", "computed", "draft", "new_computed", "sampled", "destination_column", "query_start")


class Arguments:
    """`values[name]` is the host's side of an array, `tensors[name]` the device's; `send` copies the first to the
    second."""

    def __init__(self, arena: Arena, start: int, rows: int, mapping_bits: int, written: bool) -> None:
        """`start` is an offset of the arena; `written` says whether kernels may write the arrays in which they return
        counts, as those of the V2 runner do."""
        import torch

        self._arena, self._start = arena, start
        self.values: dict[str, NDArray[Any]] = {}
        self.tensors: dict[str, torch.Tensor] = {}
        self.spans: list[AccessSpan] = []
        places: dict[str, tuple[int, int, type]] = {}
        cursor = start + GUARD
        wide = np.int64 if mapping_bits == 64 else np.int32
        for name in (*_WRITTEN_BY_V2, *_READ_ONLY, "mapping"):
            kind: type = wide if name == "mapping" else np.int32
            length = rows + 1 if name == "query_start" else rows
            size = length * np.dtype(kind).itemsize
            places[name] = (cursor, length, kind)
            self.spans.append(AccessSpan(cursor, size, name, name, writable=written and name in _WRITTEN_BY_V2))
            cursor = -(-(cursor + size) // ALIGNMENT) * ALIGNMENT + GUARD
        self.end = cursor
        self.bytes: NDArray[np.uint8] = poison_bytes("A", start, cursor - start).copy()
        for name, (offset, length, kind) in places.items():
            size = length * np.dtype(kind).itemsize
            self.values[name] = self.bytes[offset - start : offset - start + size].view(kind)
            self.values[name][:] = 0
            dtype = torch.int64 if kind is np.int64 else torch.int32
            self.tensors[name] = arena.tensor(offset, size, dtype, (length,), (1,))

    def send(self) -> None:
        """Write all arrays to the device."""
        self._arena.write(self._start, self.bytes)

    def differing(self) -> str | None:
        """The name of an array whose device side differs from the host's; None if all are equal."""
        found = self._arena.read(self._start, len(self.bytes))
        if np.array_equal(found, self.bytes):
            return None
        at = int(np.argmax(found != self.bytes)) + self._start
        for span in self.spans:
            if span.start <= at < span.start + span.size:
                return span.name
        return "a guard between arrays"

    def found(self, name: str) -> list[int]:
        """The device's side of an array."""
        span = next(span for span in self.spans if span.name == name)
        numbers: list[int] = self._arena.read(span.start, span.size).view(self.values[name].dtype).tolist()
        return numbers

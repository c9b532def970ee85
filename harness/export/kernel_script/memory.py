"""Memory of a case: all its buffers in one allocation, with guards around each, full of seeded random bytes."""

from __future__ import annotations

import bisect
import mmap
import random
from collections.abc import Iterator
from typing import Any

from harness.export.kernel_script.case import Case, State

GUARD = 8192
"""Bytes around a buffer: a store that goes astray is seen if it does not go further."""
WHOLE = 8 << 20
"""Larger buffers, in which blocks lie far apart, are filled and compared around their blocks only."""
AROUND = 256
NO_RESERVE = 0x4000
"""MAP_NORESERVE of Linux, which Python's mmap does not name everywhere."""


class Image:
    """The bytes of the memory at one time: spans of it, by the offset of their first byte."""

    def __init__(self, spans: dict[int, bytearray]) -> None:
        self.spans = spans
        self._starts = sorted(spans)

    def place(self, offset: int) -> tuple[bytearray, int]:
        start = self._starts[bisect.bisect_right(self._starts, offset) - 1]
        return self.spans[start], offset - start

    def copy(self) -> Image:
        return Image({start: bytearray(data) for start, data in self.spans.items()})

    def move(self, source: int, destination: int, size: int, before: Image) -> None:
        """Put `size` bytes that were at `source` before the call to `destination`."""
        data, first = before.place(source)
        target, to = self.place(destination)
        target[to : to + size] = data[first : first + size]


class Memory:
    """The buffers of a case on a device."""

    def __init__(self, case: Case, device: Any) -> None:
        import torch

        self.case = case
        self.starts: list[int] = []
        end = GUARD
        for size, misalignment in case.buffers:
            self.starts.append((end + 255) // 256 * 256 + misalignment)
            end = self.starts[-1] + size + GUARD
        if device.type == "cpu":  # pages that nothing touches take no memory
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE
            self.raw = torch.frombuffer(mmap.mmap(-1, end, flags=flags), dtype=torch.uint8)
        else:
            self.raw = torch.empty(end, dtype=torch.uint8, device=device)
        self.spans = list(self._spans(end))
        noise = random.Random(1)
        for first, last in self.spans:
            data = torch.frombuffer(bytearray(noise.randbytes(last - first)), dtype=torch.uint8)
            self.raw[first:last] = data.to(device)

    def _spans(self, end: int) -> Iterator[tuple[int, int]]:
        """What is filled and compared, from low to high."""
        if end <= WHOLE:
            yield 0, end
            return
        parts = [(0, GUARD), (end - GUARD, end)]
        for number, (start, (size, _)) in enumerate(zip(self.starts, self.case.buffers, strict=True)):
            if size <= WHOLE:
                parts.append((start - AROUND, start + size + AROUND))
                continue
            for _, state in states_of(self.case, extra=True):
                if state.buffer == number:
                    for block in range(self.case.num_blocks):
                        first = self.block(state, block)
                        parts.append((first - AROUND, min(first + extent(state), start + size) + AROUND))
        first, last = 0, 0
        for low, high in sorted(parts):
            if low > last:
                yield first, last
                first = low
            last = max(last, high)
        yield first, last

    def block(self, state: State, block: int) -> int:
        """Where a block of a state begins."""
        return self.starts[state.buffer] + state.offset + block * state.block_stride

    def tensor(self, state: State) -> Any:
        """A state as its layer has it."""
        import torch

        types = {1: torch.int8, 2: torch.bfloat16, 4: torch.float32, 8: torch.float64}
        start, item = self.block(state, 0), state.item
        size = (self.case.num_blocks - 1) * state.block_stride + extent(state)
        flat = self.raw[start : start + size].view(types[item])
        strides = [stride // item for stride in (state.block_stride, *state.strides)]
        return flat.as_strided((self.case.num_blocks, *state.shape), strides, flat.storage_offset())

    def read(self) -> Image:
        """The bytes that it has now."""
        return Image({first: bytearray(self.raw[first:last].cpu().numpy().tobytes()) for first, last in self.spans})


def extent(state: State) -> int:
    """Bytes from the first to one past the last byte of a block."""
    return sum((length - 1) * stride for length, stride in zip(state.shape, state.strides, strict=True)) + state.item


def states_of(case: Case, extra: bool = False) -> Iterator[tuple[tuple[int, int, int], State]]:
    """(group, layer, number) and state, in the order in which the kernels number them."""
    for g, group in enumerate(case.groups):
        for n, layer in enumerate(group):
            for s, state in enumerate((*layer.states, *(layer.extra if extra else ()))):
                yield (g, n, s), state


def places(memory: Memory, offset: int) -> str:
    """What a byte belongs to, in words."""
    case = memory.case
    for (group, layer, number), state in states_of(case, extra=True):
        block, within = divmod(offset - memory.block(state, 0), state.block_stride)
        if 0 <= block < case.num_blocks and within < extent(state):
            cells = [
                f"column {column} of slot {slot}"
                for slot, row in enumerate(case.tables[group])
                for column, cell in enumerate(row)
                if cell == block
            ]
            named = f" ({', '.join(cells[:2])})" if cells else ""
            where = f"{state.kind} state {number} of group {group} layer {layer}"
            return f"{where}, block {block}{named}, byte {within}"
    return f"no state: byte {offset} of the memory, before, between or after the blocks"

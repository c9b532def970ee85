"""The symbolic device: GPU memory in which every state holds the fingerprint of the prefix that it is the state of.

Keyed by physical block id, as the kernels see it. A temporal state is one fingerprint; a conv state is one per token of
its window; an attention block is one per slot. Nothing is cleared when a block changes its owner: the old owner's value
stays until the next write, as on a GPU. All groups share one pool: a block used by attention loses its Mamba states.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from harness.oracles.states.texts import UNDEFINED, Fingerprint


class Writer(NamedTuple):
    """The last writer of a state."""

    step: int
    request: str
    group: int
    column: int
    how: str

    def __str__(self) -> str:
        text = f"{self.how} of {self.request} in step {self.step}"
        return text if self.column < 0 else f"{text}, column {self.column} of group {self.group}"


NO_WRITER = Writer(0, "nobody", -1, -1, "nothing")


class Device:
    """`window` is the number of tokens of a conv state, `slots` the maximum number of tokens of an attention block."""

    def __init__(self, num_blocks: int, window: int, slots: int) -> None:
        self.window = window
        self.slots = slots
        self.temporal: list[Fingerprint] = [UNDEFINED] * num_blocks
        self.conv: list[list[Fingerprint]] = [[UNDEFINED] * window for _ in range(num_blocks)]
        self.attention: list[list[Fingerprint]] = [[UNDEFINED] * slots for _ in range(num_blocks)]
        self.holds_attention = [False] * num_blocks
        self.writer: list[Writer] = [NO_WRITER] * num_blocks
        self.zeroed = [False] * num_blocks
        """Whether runners have cleared a block, and nothing was written into it since."""

    def discard(self) -> None:
        """All memory is given up, as by an engine that sleeps; what comes back is undefined."""
        for block in range(len(self.temporal)):
            self.zero(block)
            self.zeroed[block] = False

    def become_attention(self, block: int) -> None:
        """Attention writes into a block that held Mamba states."""
        self.holds_attention[block] = True
        self.temporal[block] = UNDEFINED
        self.conv[block] = [UNDEFINED] * self.window

    def become_mamba(self, block: int) -> None:
        """Mamba states are written into a block that held keys and values."""
        self.holds_attention[block] = False
        self.attention[block] = [UNDEFINED] * self.slots

    def keys_of(self, block: int) -> list[Fingerprint]:
        """Slots of a block that hold keys and values. A layer that reads a state there gets their bytes."""
        return [slot for slot in self.attention[block] if slot != UNDEFINED]

    def zero(self, block: int) -> None:
        """Clear a block, as runners do with fresh attention blocks."""
        self.zeroed[block] = True
        self.temporal[block] = UNDEFINED
        self.conv[block] = [UNDEFINED] * self.window
        self.attention[block] = [UNDEFINED] * self.slots
        self.writer[block] = NO_WRITER

    def written(self, block: int, writer: Writer) -> None:
        """Something was written into a block."""
        self.writer[block] = writer
        self.zeroed[block] = False

    def copy_blocks(self, copies: Sequence[tuple[int, int]], writer: Writer) -> None:
        """Copy everything that blocks hold, as the scheduler's copies on write do: pairs (source, destination).

        One launch does all of them, and reads every source before it writes: a source that is also a destination gives
        its earlier contents.
        """
        held = [
            (self.temporal[source], list(self.conv[source]), list(self.attention[source]), self.holds_attention[source])
            for source, _ in copies
        ]
        for (_, block), (temporal, conv, attention, is_attention) in zip(copies, held, strict=True):
            self.temporal[block], self.conv[block], self.attention[block] = temporal, conv, attention
            self.holds_attention[block] = is_attention
            self.written(block, writer)

    def move(self, source: int, spec_source: int, destination: int, bias: int, writer: Writer) -> None:
        """Move one state as precopy and postprocess do (docs/domain.md, section 5).

        The temporal state comes from `spec_source`; the window shifts by `bias` tokens, and its last `bias` tokens
        stay.
        """
        temporal = self.temporal[spec_source]
        kept = self.conv[source][bias:]
        if self.holds_attention[destination]:
            self.become_mamba(destination)
        self.temporal[destination] = temporal
        window = self.conv[destination]
        self.conv[destination] = kept + window[len(kept) :]
        self.written(destination, writer)

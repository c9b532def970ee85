"""Block copies of one step run at once: every source is read before any destination is written."""

from __future__ import annotations

import numpy as np

from harness.case.step_plan import StepPlan
from harness.oracles.states.device import Device, Writer
from harness.oracles.states.state_oracle import StateOracle
from harness.sequences.byte_layout import LAYERS, TEMPORAL_BYTES, TOKEN_BYTES
from harness.sequences.tags import Pages

WINDOW, A, B, C, D = 4, 1, 2, 3, 4
COPIES = [(A, B), (B, C), (C, A), (A, D)]
"""A chain that closes, and a source of two copies."""
COPIER = Writer(1, "scheduler", -1, -1, "block copy")


def filled() -> Device:
    device = Device(6, WINDOW, 4)
    for block in (A, B, C):
        device.temporal[block] = 100 * block
        device.conv[block] = [100 * block + token for token in range(1, WINDOW + 1)]
    device.become_attention(C)
    device.attention[C] = [31, 32, 33, 34]
    return device


def test_the_symbolic_device_reads_before_it_writes() -> None:
    device, before = filled(), filled()
    device.copy_blocks(COPIES, COPIER)
    for source, destination in COPIES:
        assert device.temporal[destination] == before.temporal[source]
        assert device.conv[destination] == before.conv[source]
        assert device.attention[destination] == before.attention[source]
        assert device.holds_attention[destination] == before.holds_attention[source]
        assert device.writer[destination] == COPIER
    device.conv[B][0] = 0
    assert device.conv[D][0] == before.conv[A][0], "copies share nothing"


def test_a_step_hands_all_its_copies_over_at_once() -> None:
    device = filled()
    judge = StateOracle(device, 4, 4, (1,), (0,), (4,))
    judge.idle(StepPlan(copies=[(A, B), (B, C)]))
    assert (device.temporal[B], device.temporal[C]) == (100 * A, 100 * B)
    assert judge.counters["block copies"] == 2


def test_bytes_are_read_before_they_are_written_too() -> None:
    used = WINDOW * TOKEN_BYTES + TEMPORAL_BYTES
    padding = 8

    def pages_of(memory: np.ndarray) -> Pages:
        return Pages(list(memory), WINDOW, is_ds=False)

    memory = np.full((LAYERS, 6, used + padding), 0xA5, dtype=np.uint8)
    device = filled()
    pages_of(memory).write(device, range(6))
    device.copy_blocks(COPIES, COPIER)
    wanted = memory.copy()
    pages_of(wanted).write(device, range(6))
    assert not np.array_equal(memory, wanted)
    pages_of(memory).copy(COPIES)
    assert np.array_equal(memory, wanted)
    assert (memory[:, :, used:] == 0xA5).all()

"""Arenas in the CPU's address space."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from harness.kernels.executors.base import ExecutorCannot
from harness.kernels.executors.host_memory import HostArena


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_a_large_arena_costs_what_is_touched() -> None:
    before = resident_bytes()
    arena = HostArena(64 << 30)
    assert arena.address % 256 == 0
    for offset in (0, 5 << 30, (64 << 30) - 8):
        arena.write(offset, np.arange(8, dtype=np.uint8))
        assert arena.read(offset, 8).tolist() == list(range(8))
    assert arena.read(1 << 35, 16).sum() == 0
    assert resident_bytes() - before < 4 << 20


def test_a_tensor_s_storage_is_exactly_its_bytes() -> None:
    arena = HostArena(1 << 16)
    tensor = arena.tensor(514, 61, torch.int16, (5, 3), (6, 1))
    assert tensor.data_ptr() == arena.address + 514
    assert tensor.untyped_storage().nbytes() == 61
    assert tensor.untyped_storage().data_ptr() == tensor.data_ptr()
    assert tensor.storage_offset() == 0
    tensor.fill_(-1)
    rows = arena.read(514, 60).reshape(5, 12)
    assert (rows[:, :6] == 255).all()
    assert (rows[:, 6:] == 0).all()
    other = arena.tensor(514, 61, torch.uint8, (61,), (1,))
    assert other.untyped_storage()._cdata != tensor.untyped_storage()._cdata


def test_tensors_outlive_the_arena_object() -> None:
    arena = HostArena(1 << 16)
    tensor = arena.tensor(0, 64, torch.int64, (8,), (1,))
    del arena
    tensor.fill_(3)
    assert tensor.sum() == 24


def test_a_tensor_without_bytes() -> None:
    assert HostArena(64).tensor(64, 0, torch.int32, (0, 4), (4, 1)).shape == (0, 4)


def test_a_shape_larger_than_its_storage_is_refused() -> None:
    with pytest.raises(RuntimeError, match="storage"):
        HostArena(1 << 12).tensor(0, 60, torch.int32, (16,), (1,))


@pytest.mark.parametrize(("offset", "size"), [(-1, 4), (0, 4097), (4096, 1), (8, -1)])
def test_bytes_outside_are_refused(offset: int, size: int) -> None:
    arena = HostArena(4096)
    with pytest.raises(ValueError, match="not in an arena"):
        arena.tensor(offset, size, torch.uint8, (0,), (1,))
    with pytest.raises(ValueError, match="not in an arena"):
        arena.read(offset, size)
    with pytest.raises(ValueError, match="not in an arena"):
        arena.discard(offset, size)


@pytest.mark.parametrize(("offset", "size"), [(0, 3 * 4096), (100, 200), (100, 4000), (4095, 4098), (1, 12287)])
def test_discarding_zeroes_just_the_range(offset: int, size: int) -> None:
    arena = HostArena(4 * 4096)
    arena.write(0, np.full(arena.size, 7, dtype=np.uint8))
    arena.discard(offset, size)
    content = arena.read(0, arena.size)
    assert (content[offset : offset + size] == 0).all()
    assert (content[:offset] == 7).all()
    assert (content[offset + size :] == 7).all()


def test_views_for_reading_do_not_write() -> None:
    view = HostArena(64).read(0, 64)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1


def test_no_room_is_an_error_of_one_line() -> None:
    with pytest.raises(ExecutorCannot, match="no room for an arena"):
        HostArena(1 << 60)

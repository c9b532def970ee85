"""Exported memory: what host code has passed on is noted, while that is asked for, and whatever the call came to."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
import torch

from harness.check.exported_memory import ExportedMemory, storage_of
from harness.kernels.executors.base import Arena
from harness.kernels.executors.host_memory import HostArena


class _Arena:
    address, size = 0, 0


@pytest.fixture
def exported() -> ExportedMemory:
    return ExportedMemory(cast(Arena, _Arena()))


def noted(exported: ExportedMemory, tensor: torch.Tensor) -> bool:
    return storage_of(tensor)._cdata in exported._storages


WAYS: dict[str, Callable[[torch.Tensor], Any]] = {
    "numpy": lambda tensor: tensor.numpy(),
    "numpy of a view": lambda tensor: tensor[1:].numpy(),
    "an array": np.asarray,
    "dlpack": np.from_dlpack,
    "its storage": lambda tensor: tensor.untyped_storage(),
    "its typed storage": lambda tensor: torch.Tensor.storage(self=tensor),
    "apply_": lambda tensor: tensor.apply_(lambda value: value + 1),
}


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.parametrize("way", WAYS)
def test_each_way_out_is_noted(exported: ExportedMemory, way: str) -> None:
    tensor, other = torch.zeros(4), torch.zeros(4)
    with exported:
        WAYS[way](tensor)
    assert (noted(exported, tensor), noted(exported, other)) == (True, False)


def test_nothing_is_noted_outside(exported: ExportedMemory) -> None:
    tensor = torch.zeros(4)
    tensor.numpy()
    with exported:
        tensor.add_(1)
        copy.copy(tensor.shape)
    assert not noted(exported, tensor)


def test_the_tensors_of_an_arena_are_no_export() -> None:
    arena = HostArena(4096)
    exported = ExportedMemory(arena)
    with exported:
        tensor = arena.tensor(0, 64, torch.uint8, (64,), (1,))
    assert not noted(exported, tensor)


def test_threads_of_host_code_count(exported: ExportedMemory) -> None:
    tensor = torch.zeros(4)
    with exported:
        thread = threading.Thread(target=tensor.numpy)
        thread.start()
        thread.join()
    assert noted(exported, tensor)


def test_a_call_that_raises_has_written_all_the_same(exported: ExportedMemory) -> None:
    tensor = torch.zeros(4)

    def second_raises(value: float) -> float:
        if tensor[0] == 7:
            raise RuntimeError("enough")
        return 7.0

    with exported, pytest.raises(RuntimeError, match="enough"):
        tensor.apply_(second_raises)
    assert tensor[0] == 7
    assert noted(exported, tensor)


def test_what_has_no_storage_is_passed_over(exported: ExportedMemory) -> None:
    with exported:
        torch.zeros(4).to_sparse().to_dense().numpy()
        with pytest.raises((TypeError, RuntimeError)):
            torch.zeros(4).to_sparse().numpy()

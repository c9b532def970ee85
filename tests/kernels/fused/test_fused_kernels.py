"""The fused kernels in Triton's interpreter, against expectations written as plain array assignments.

The interpreter is chosen when Triton is imported, so the scenarios run in a child process, which runs this file as a
script. Each scenario compares all of its memory, so that a byte moved too far shows as clearly as one not
moved.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from harness.kernels.executors.interpreter import InterpreterExecutor

ROOT = Path(__file__).parents[3]
PATH = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
SCENARIOS: dict[str, Callable[[], None]] = {}
TORCH = {1: torch.int8, 2: torch.bfloat16, 4: torch.float32, 8: torch.float64}
NUMPY = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def scenario(function: Callable[[], None]) -> Callable[[], None]:
    SCENARIOS[function.__name__] = function
    return function


@pytest.fixture(scope="module")
def results() -> dict[str, str | None]:
    reason = InterpreterExecutor.unavailable()
    if reason is not None:
        pytest.skip(reason)
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": PATH}
    done = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, str | None] = json.loads(done.stdout)
    return found


class Memory:
    """Random bytes at a 64-byte boundary; `expected` starts as their copy and is edited by hand."""

    def __init__(self, size: int) -> None:
        room = np.random.default_rng(0).integers(0, 256, size + 64, dtype=np.uint8)
        skip = -room.ctypes.data % 64
        self.actual = room[skip : skip + size]
        self.expected = self.actual.copy()

    def state(
        self, offset: int, item: int, shape: Sequence[int], strides: Sequence[int]
    ) -> tuple[torch.Tensor, np.ndarray]:
        """A tensor over the actual bytes and the same view of the expected ones. Strides in bytes."""
        extent = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + item
        tensor = torch.from_numpy(self.actual[offset : offset + extent]).view(TORCH[item])
        view = np.ndarray(shape, NUMPY[item], self.expected.data, offset, strides)
        return tensor.as_strided(tuple(shape), tuple(s // item for s in strides)), view

    def check(self) -> None:
        wrong = np.flatnonzero(self.actual != self.expected)
        assert wrong.size == 0, f"{wrong.size} wrong bytes, the first at {wrong[0]}"


def ints(*values: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


def context(states: Any, tables: Sequence[Sequence[Sequence[int]]], layout: str, **options: Any) -> Any:
    from harness.kernels.fused.context import BoundState, FusedContext

    def allocate(name: str, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        return torch.full(tuple(shape), 77, dtype=dtype)

    return FusedContext(
        [[BoundState(tensor, kind) for tensor, kind in group] for group in states],
        [torch.tensor(table, dtype=torch.int32) for table in tables],
        conv_layout=layout,
        block_size=4,
        allocate=allocate,
        **options,
    )


@scenario
def same_block_shift_sd() -> None:
    for item, dim, bias in ((1, 3, 2), (1, 8, 1), (2, 5, 2), (2, 4, 3), (4, 3, 2), (8, 2, 1), (2, 1100, 2)):
        block = 5 * dim * item + 3 * item
        memory = Memory(4 * block + 8)
        conv, expected = memory.state(item, item, (4, 5, dim), (block, dim * item, item))
        fused = context([[(conv, "conv")]], [[[3, 2, 1]]], "SD")
        running = 8 - bias
        fused.postprocess(1, ints(bias + 1), ints(1), ints(bias + 1), ints(running - 1), ints(bias))
        expected[2, : 5 - bias] = expected[2, bias:].copy()
        memory.check()
        assert fused.accepted_out.tolist() == [1]


@scenario
def same_block_shift_ds() -> None:
    for item, dim, row, bias in (
        (1, 3, 7, 2),
        (2, 4, 10, 2),
        (2, 5, 16, 1),
        (4, 3, 20, 3),
        (8, 2, 48, 2),
        (2, 1100, 12, 2),
    ):
        block = dim * row + item
        memory = Memory(4 * block + 8)
        conv, expected = memory.state(item, item, (4, dim, 5), (block, row, item))
        fused = context([[(conv, "conv")]], [[[3, 2, 1]]], "DS")
        running = 8 - bias
        fused.postprocess(1, ints(bias + 1), ints(1), ints(bias + 1), ints(running - 1), ints(bias))
        expected[2, :, : 5 - bias] = expected[2, :, bias:].copy()
        memory.check()


@scenario
def groups_have_tables_of_their_own() -> None:
    """Two groups, padded pages that hold a conv and a temporal state each, moved by three columns."""
    memory = Memory(2 * 12 * 64)
    states = []
    for group in range(2):
        conv = memory.state(group * 768, 2, (12, 4, 3), (64, 6, 2))
        temporal = memory.state(group * 768 + 24, 4, (12, 2, 3), (64, 12, 4))
        states.append((conv, temporal))
    tables = [[[1, 2, 3, 4, 5]], [[11, 10, 9, 8, 7]]]
    fused = context([[(conv[0], "conv"), (temporal[0], "temporal")] for conv, temporal in states], tables, "SD")
    fused.precopy(1, ints(0), ints(3), ints(1))
    for (conv, temporal), (table,) in zip(states, tables, strict=True):
        conv[1][table[3], :3] = conv[1][table[0], 1:]
        temporal[1][table[3]] = temporal[1][table[1]]
    memory.check()


@scenario
def temporal_copies_at_every_alignment() -> None:
    """Natural sizes with every remainder, blocks that agree or disagree in their low address bits."""
    for item, count, stride, offset in (
        (1, 1, 1, 3), (1, 13, 17, 1), (1, 40, 48, 5), (2, 7, 14, 2), (2, 21, 44, 6), (4, 5, 24, 4), (4, 7, 28, 4),
        (8, 3, 32, 8), (2, 2, 4, 0), (1, 7, 8, 1),
    ):  # fmt: skip
        memory = Memory(offset + 6 * stride)
        temporal, expected = memory.state(offset, item, (6, count), (stride, item))
        fused = context([[(temporal, "temporal")]], [[[1, 2, 3, 4, 5]]], "SD")
        fused.precopy(1, ints(1), ints(3), ints(0))
        expected[4] = expected[2]
        memory.check()


@scenario
def tiles_cover_everything_once() -> None:
    """More tiles than programs, as many, and fewer."""
    for item, count, programs in (
        (1, 8192 * 3 + 5, 2),
        (1, 8192 * 3 + 5, 16),
        (4, 4096, 1),
        (1, 2048 + 1, 3),
        (2, 8, 5),
    ):
        for lanes in (128, 1024):
            stride = count * item + item
            memory = Memory(4 * stride)
            temporal, expected = memory.state(0, item, (4, count), (stride, item))
            fused = context([[(temporal, "temporal")]], [[[1, 2, 3]]], "SD", programs=programs, lanes=lanes)
            fused.precopy(1, ints(0), ints(2), ints(1))
            expected[3] = expected[2]
            memory.check()


@scenario
def a_shift_of_several_tiles() -> None:
    """An SD window of 5 tokens of 600 bytes, and a DS one, whose columns three programs share."""
    for layout in ("SD", "DS"):
        for bias in (1, 2, 4):
            memory = Memory(4 * 3072)
            shape, strides = ((4, 5, 300), (3072, 600, 2)) if layout == "SD" else ((4, 300, 5), (3072, 10, 2))
            conv, expected = memory.state(0, 2, shape, strides)
            fused = context([[(conv, "conv")]], [[[3, 2, 1]]], layout, programs=3, lanes=64)
            running = 8 - bias
            fused.postprocess(1, ints(bias + 1), ints(1), ints(bias + 1), ints(running - 1), ints(bias))
            window = expected[2] if layout == "SD" else expected[2].T
            window[: 5 - bias] = window[bias:].copy()
            memory.check()


@scenario
def more_requests_than_are_decided_for_at_a_time() -> None:
    """21 requests, 4 at a time: those that move lie in the first, in the last and in two neighbouring fours."""
    for programs in (1, 3, 40):
        memory = Memory(64 * 32)
        temporal, expected = memory.state(0, 4, (64, 8), (32, 4))
        tables = [[[1 + 3 * row, 2 + 3 * row, 3 + 3 * row] for row in range(21)]]
        fused = context([[(temporal, "temporal")]], tables, "SD", programs=programs, decided=4)
        moving = (0, 2, 9, 12, 20)
        fused.precopy(21, ints(*(0 if row in moving else 2 for row in range(21))), ints(*[2] * 21), ints(*[1] * 21))
        for row in moving:
            expected[3 + 3 * row] = expected[2 + 3 * row]
        memory.check()
        fused.precopy(21, ints(*[-1] * 21), ints(*[2] * 21), ints(*[1] * 21))
        memory.check()


@scenario
def counts_are_reset_once_all_have_read_them() -> None:
    """Many programs, several launches: the last program to arrive resets, and leaves things as they were."""
    memory, fused, conv, temporal = one_of_each()
    for _ in range(3):
        accepted = ints(1, 2, 4, 1)
        fused.postprocess_in_place(4, accepted, ints(0, 0, 1, 0), ints(4, 4, 8, 5), ints(0, 1, 2, 3))
        conv[6, :2] = conv[6, 1:].copy()
        temporal[6] = temporal[7]
        conv[12, :0] = conv[12, 3:].copy()
        temporal[12] = temporal[15]
        memory.check()
        assert accepted.tolist() == [1, 1, 1, 1]


def one_of_each() -> tuple[Memory, Any, np.ndarray, np.ndarray]:
    """A conv and a temporal state, four requests: the block in column c of row r is 1 + 5 r + c."""
    memory = Memory(21 * 64)
    conv, expected_conv = memory.state(0, 2, (21, 3, 2), (64, 4, 2))
    temporal, expected_temporal = memory.state(12, 4, (21, 5), (64, 4))
    table = [[1 + 5 * row + column for column in range(5)] for row in range(4)]
    fused = context([[(conv, "conv"), (temporal, "temporal")]], [table], "SD")
    return memory, fused, expected_conv, expected_temporal


@scenario
def postprocess_v1_decides_for_each_request() -> None:
    memory, fused, conv, temporal = one_of_each()
    accepted = ints(3, 2, 1, 9)
    # Row 0: 7 running, 9 new: past the boundary at 8, from column 2 to 1 with bias 1.
    # Row 1: 5 running, 6 new: no boundary. Row 2: 8 running, 8 new, same block and bias 0: only the count.
    fused.postprocess(3, accepted, ints(2, 1, 1, 0), ints(3, 3, 1, 1), ints(6, 4, 7, 7), ints(2, 2, 0, 0))
    conv[2, :2] = conv[3, 1:]
    temporal[2] = temporal[4]
    memory.check()
    assert accepted.tolist() == [3, 2, 1, 9]
    assert fused.accepted_out.tolist() == [3, 2, 1, 0]


@scenario
def postprocess_v2_resets_in_place() -> None:
    for dtype in (torch.int32, torch.int64):
        memory, fused, conv, temporal = one_of_each()
        accepted = ints(3, 2, 4, 9)
        # Slot 2: 5 running, 8 new: its running block, column 1, bias 3. Slot 0: 2 running, 4 new: column 0, bias 2.
        # Slot 1 is skipped, slot 3 is unused.
        mapping = ints(2, -1, 0, 1, dtype=dtype)
        fused.postprocess_in_place(3, accepted, ints(0, 0, 1, 0), ints(4, 4, 8, 4), mapping)
        conv[1, :1] = conv[1, 2:].copy()
        temporal[1] = temporal[3]
        temporal[12] = temporal[15]
        memory.check()
        assert accepted.tolist() == [1, 2, 1, 9]


@scenario
def postprocess_with_nothing_accepted_moves_nothing() -> None:
    memory, fused, _, _ = one_of_each()
    fused.postprocess(2, ints(0, 0), ints(1, 0), ints(1, 1), ints(7, 0), ints(0, 0))
    memory.check()
    assert fused.accepted_out.tolist() == [0, 0, 0, 0]


@scenario
def precopy_v1_skips_fresh_and_staying_requests() -> None:
    memory, fused, conv, temporal = one_of_each()
    fused.precopy(3, ints(-1, 2, 1, 0), ints(1, 2, 3, 1), ints(0, 1, 1, 0))
    conv[14, :2] = conv[12, 1:]
    temporal[14] = temporal[13]
    memory.check()


@scenario
def precopy_v2_goes_through_the_mapping() -> None:
    memory, fused, conv, temporal = one_of_each()
    fused.precopy(3, ints(0, 0, 0, 3), ints(1, 1, 1, 0), ints(0, 0, 0, 0), ints(3, -1, 1))
    conv[16], temporal[16] = conv[19], temporal[19]
    conv[7], temporal[7] = conv[6], temporal[6]
    memory.check()


@scenario
def a_bias_past_the_window_moves_the_temporal_state_alone() -> None:
    for bias in (3, 4):
        memory, fused, _, temporal = one_of_each()
        fused.precopy(1, ints(0), ints(2), ints(bias))
        temporal[3] = temporal[1 + bias]
        memory.check()


@scenario
def an_empty_batch_does_nothing() -> None:
    memory, fused, _, _ = one_of_each()
    fused.precopy(0, ints(), ints(), ints())
    fused.postprocess(0, ints(), ints(), ints(), ints(), ints())
    fused.postprocess_in_place(0, ints(1, 2, 3, 4), ints(0, 0, 0, 0), ints(4, 4, 4, 4), ints())
    memory.check()


@pytest.mark.long
@pytest.mark.parametrize("name", SCENARIOS)
def test_interpreted(results: dict[str, str | None], name: str) -> None:
    assert results[name] is None, results[name]


def main() -> None:
    outcome: dict[str, str | None] = {}
    for name, function in SCENARIOS.items():
        try:
            function()
            outcome[name] = None
        except Exception:
            outcome[name] = traceback.format_exc()
    print(json.dumps(outcome))


if __name__ == "__main__":
    main()

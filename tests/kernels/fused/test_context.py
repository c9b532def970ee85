"""What the fused context refuses, before any kernel runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from harness.kernels.fused.context import BoundState, FusedContext


def allocate(name: str, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(tuple(shape), dtype=dtype)


def conv(*shape: int) -> BoundState:
    return BoundState(torch.zeros(shape, dtype=torch.bfloat16), "conv")


def temporal(tensor: torch.Tensor) -> BoundState:
    return BoundState(tensor, "temporal")


def table(rows: int = 4, columns: int = 8) -> torch.Tensor:
    return torch.zeros((rows, columns), dtype=torch.int32)


def context(
    states: Sequence[Sequence[BoundState]], tables: Sequence[torch.Tensor], layout: Any = "SD", **options: Any
) -> FusedContext:
    return FusedContext(states, tables, conv_layout=layout, allocate=allocate, **{"block_size": 16, **options})


WIDE = torch.zeros(4096, dtype=torch.bfloat16)
REFUSED: dict[str, Callable[[], object]] = {
    "1 groups of states and 2 block tables": lambda: context([[conv(3, 4, 5)]], [table(), table()]),
    "0 groups of states and 0 block tables": lambda: context([], []),
    "there are no states to move": lambda: context([[]], [table()]),
    "block size 0: it must be at least 1": lambda: context([[conv(3, 4, 5)]], [table()], block_size=0),
    "0 programs: there must be at least 1": lambda: context([[conv(3, 4, 5)]], [table()], programs=0),
    "lanes is 96, which is not a power of two": lambda: context([[conv(3, 4, 5)]], [table()], lanes=96),
    "decided is 0, which is not a power of two": lambda: context([[conv(3, 4, 5)]], [table()], decided=0),
    "1048576 requests of 4096 tiles each are more than 32 bits can count": lambda: context(
        [[temporal(torch.zeros((2, 32768), dtype=torch.int8))]], [table()], lanes=1, decided=1 << 20
    ),
    "block table 0 is 2-D torch.int64": lambda: context([[conv(3, 4, 5)]], [table().long()]),
    "block table 0 is 1-D torch.int32": lambda: context([[conv(3, 4, 5)]], [table()[0]]),
    "columns of block table 0 are 2 elements apart": lambda: context([[conv(3, 4, 5)]], [table()[:, ::2]]),
    "rows of block table 0 overlap": lambda: context([[conv(3, 4, 5)]], [table().as_strided((4, 8), (4, 1))]),
    "block tables differ in row stride: 8 in table 0, 9 in table 1": lambda: context(
        [[conv(3, 4, 5)], [conv(3, 4, 5)]], [table(), table(columns=9)]
    ),
    "group 0 state 1 is on meta": lambda: context(
        [[conv(3, 4, 5), temporal(torch.zeros((2, 2), device="meta"))]], [table()]
    ),
    "elements of 16 bytes": lambda: context([[temporal(torch.zeros((2, 2), dtype=torch.complex128))]], [table()]),
    "group 0 state 0 is empty": lambda: context([[conv(0, 4, 5)]], [table()]),
    "a temporal state has at least one inner dimension": lambda: context([[temporal(torch.zeros(4))]], [table()]),
    "a conv state has 3 dimensions, this one has 2": lambda: context([[conv(3, 4)]], [table()]),
    "stride of dimension 1 is 6, contiguous is 5": lambda: context(
        [[BoundState(WIDE.as_strided((3, 4, 5), (40, 6, 1)), "conv")]], [table()]
    ),
    "stride of dimension 2 is 2, contiguous is 1": lambda: context(
        [[BoundState(WIDE.as_strided((3, 4, 5), (40, 10, 2)), "conv")]], [table()], "DS"
    ),
    "stride of dimension 1 is 10, contiguous is 5": lambda: context(
        [[temporal(WIDE.as_strided((3, 4, 5), (40, 10, 1)))]], [table()]
    ),
    "rows of 10 bytes overlap at stride 8": lambda: context(
        [[BoundState(WIDE.as_strided((3, 4, 5), (40, 4, 1)), "conv")]], [table()], "DS"
    ),
    "blocks of 40 bytes overlap at stride 38": lambda: context(
        [[BoundState(WIDE.as_strided((3, 4, 5), (19, 5, 1)), "conv")]], [table()]
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused_when_bound(message: str) -> None:
    with pytest.raises(ValueError, match=message) as refusal:
        REFUSED[message]()
    assert "\n" not in str(refusal.value)


def test_gaps_and_the_strides_of_single_elements_are_allowed() -> None:
    context([[BoundState(WIDE.as_strided((3, 4, 5), (64, 9, 1)), "conv")]], [table()], "DS")
    context([[BoundState(WIDE.as_strided((3, 1, 1), (64, 7, 3)), "conv")]], [table()[:, :5]])
    context([[temporal(WIDE.as_strided((1, 4), (2, 1)))]], [table()])


def call(**replaced: Any) -> None:
    """A V1 postprocess of two requests with one argument replaced."""
    arguments = {
        name: torch.zeros(4, dtype=torch.int32)
        for name in ("accepted", "state_column", "scheduled", "computed", "draft")
    }
    context([[conv(3, 4, 5)]], [table()]).postprocess(**{"num_requests": 2, **arguments, **replaced})


@pytest.mark.parametrize(
    ("replaced", "message"),
    [
        ({"num_requests": 5}, "5 requests, but the block tables have 4 rows"),
        ({"num_requests": -1}, "-1 requests"),
        ({"accepted": torch.zeros(4, dtype=torch.int64)}, "accepted is torch.int64, not torch.int32"),
        ({"draft": torch.zeros(1, dtype=torch.int32)}, "draft has 1 entries, 2 are needed"),
        ({"computed": torch.zeros(8, dtype=torch.int32)[::2]}, r"computed has shape \(4,\), strides \(2,\)"),
        ({"scheduled": torch.zeros(4, dtype=torch.int32, device="meta")}, "scheduled is on meta"),
    ],
)
def test_refused_when_called(replaced: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        call(**replaced)


def test_arrays_by_slot_cover_every_row_of_the_tables() -> None:
    fused = context([[conv(3, 4, 5)]], [table()])
    short, full = torch.zeros(3, dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    with pytest.raises(ValueError, match=r"^source_column has 3 entries, 4 are needed$"):
        fused.precopy(1, short, full, full, full)
    with pytest.raises(ValueError, match=r"^new_computed has 3 entries, 4 are needed$"):
        fused.postprocess_in_place(1, full, full, short, full)
    with pytest.raises(ValueError, match=r"^mapping is torch.int16, not torch.int32 or torch.int64$"):
        fused.postprocess_in_place(1, full, full, full, full.to(torch.int16))

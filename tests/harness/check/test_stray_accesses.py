"""Accesses that leave their object, planted in our kernels: each is found and named in terms of the domain."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from harness.case import Buffer, Case, Group, Layer, Precopy, PrecopyRow, TemporalState
from harness.check.session import Session
from harness.kernels.executors.registry import create_executor, executor_class
from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.targets.builtin import BuiltinTarget

BYTE_STORE = "tl.store((destination{}).to(tl.pointer_type(tl.uint8)), (source & 1).to(tl.uint8))\n    "
COPIES = "apart = (source_block != destination_block)"

PLANTED: dict[str, tuple[str, str, str, int, str]] = {
    "a load one element past a table row": (
        "look_up_blocks",
        "source_block = tl.load(cells",
        "past = tl.load(cells + table_stride, mask=inside, other=0)\n"
        "    source_block = tl.where(past == 1, 1, 0) + tl.load(cells",
        24,
        "out-of-bounds 4-byte load at no object, 0 bytes after the block table of group 0; precopy_kernel,"
        " FILE.py:LINE (look_up_blocks), program (0, 0, 0), lane 0",
    ),
    "a store one byte past the last state": (
        "locate",
        COPIES,
        BYTE_STORE.format(" + size") + COPIES,
        16,
        "out-of-bounds 1-byte store at no object, 0 bytes after buffer 0; precopy_kernel, FILE.py:LINE (locate),"
        " program (0, 0, 0), lane 0",
    ),
    "a store one byte before a state": (
        "locate",
        COPIES,
        BYTE_STORE.format(" - 1") + COPIES,
        24,
        "out-of-bounds 1-byte store at padding, 1 byte before group 0, layer 0,"
        " temporal state 0, block 2 (column 1 of slot 2); precopy_kernel, FILE.py:LINE (locate),"
        " program (0, 0, 0), lane 0",
    ),
    "a store into the padding of a page": (
        "locate",
        COPIES,
        BYTE_STORE.format(" + size + 3") + COPIES,
        24,
        "out-of-bounds 1-byte store at padding, 3 bytes after group 0, layer 0,"
        " temporal state 0, block 2 (column 1 of slot 2); precopy_kernel, FILE.py:LINE (locate),"
        " program (0, 0, 0), lane 0",
    ),
}


def judged(case: Case, function: str, pattern: str, replacement: str) -> Any:
    if executor_class("native").unavailable() is not None:
        pytest.skip("no executor here watches accesses")
    planted = Mutation(
        "planted", "a fault of this test", {"builtin": {"fused/copy.py": [[Rewrite(function, pattern, replacement)]]}}
    )
    executor = create_executor("native", ("memory",))
    outcome = Session(BuiltinTarget(executor, [planted]), executor).check(case)
    assert outcome.failure is not None
    return outcome.failure


def one_state(make_case: Callable[..., Case], make_layout: Callable[..., Any], stride: int, offset: int = 0) -> Case:
    """Slot 2 moves a temporal state of 16 bytes from block 1 to block 2, the last one."""
    state = TemporalState(item_size=4, shape=(4,), buffer=0, offset=offset, block_stride=stride)
    layout = make_layout(
        num_blocks=3,
        buffers=(Buffer(size=3 * stride + offset),),
        groups=(Group(layers=(Layer(states=(state,)),)),),
    )
    move = Precopy(runner="V2", rows=(PrecopyRow(slot=2, source_column=0, destination_column=1, bias=0),))
    return make_case(move, layout=layout, tables=(((), (), (1, 2)),), owners=(-1, 0, 0))


@pytest.mark.parametrize("what", PLANTED)
def test_an_access_that_leaves_its_object(
    what: str, make_case: Callable[..., Case], make_layout: Callable[..., Any]
) -> None:
    function, pattern, replacement, stride, expected = PLANTED[what]
    failure = judged(one_state(make_case, make_layout, stride), function, pattern, replacement)
    signature = failure.signature
    assert (signature.oracle, signature.violation) == ("access", "out-of-bounds")
    summaries = failure.evidence.details
    assert re.sub(r"[\w/]+\.py:\d+ (\(\w+\)).*, program", r"FILE.py:LINE \1, program", summaries[0]) == expected
    assert failure.evidence.summary == summaries[0]


def test_a_wide_load_at_a_narrow_address(make_case: Callable[..., Case], make_layout: Callable[..., Any]) -> None:
    failure = judged(
        one_state(make_case, make_layout, 24, offset=4),
        "_copy_words",
        "(-destination & (WORD_BYTES - 1))",
        "(-destination & (WORD_BYTES // 2 - 1))",
    )
    assert (failure.signature.oracle, failure.signature.violation) == ("access", "misaligned")
    assert {re.sub(r"; .*", "", text) for text in failure.evidence.details} == {
        f"misaligned 8-byte {access} at group 0, layer 0, temporal state 0, block {block}, element 0, byte 0 "
        "and 1 other place"
        for access, block in (("load", "1 (column 0 of slot 2)"), ("store", "2 (column 1 of slot 2)"))
    }

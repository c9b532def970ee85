"""Each check of one run sees a fault that nothing else does: without that check, the faulty target passes.

A check that has died in silence looks like a target without faults; here it fails a test. Relations between runs have
the same in `tests/oracles/relations`; crashes, hangs and exceptions are tested where they are told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import harness.check.session
from harness.case import Case, Postprocess, PostprocessRow, Precopy, PrecopyRow
from harness.check.session import Session
from harness.kernels.executors.registry import create_executor, executor_class
from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.targets.builtin import BuiltinTarget

MOVE = Precopy(runner="V1", rows=(PrecopyRow(slot=0, source_column=0, destination_column=1, bias=0),))
SHIFT = PostprocessRow(slot=0, scheduled=3, computed=2, draft=2, accepted=2, state_column=0)

WITNESSES: dict[str, tuple[str, Any, str, Sequence[Rewrite], str]] = {
    "byte_evidence": (
        "the state stays in the block it was in",
        MOVE,
        "copy",
        [Rewrite("move_state", "tl.load(table + destination_column)", "tl.load(table + source_column)")],
        "precopy/memory/wrong-bytes/",
    ),
    "result_evidence": (
        "a count that only the host reads is not reset",
        Postprocess(runner="V1", rows=(SHIFT,)),
        "postprocess",
        [Rewrite("postprocess_kernel", "tl.where(within_block, 1, count)", "count")],
        "postprocess/memory/wrong-count/accepted",
    ),
    "access_evidence": (
        "a word past the state is read, and thrown away",
        MOVE,
        "copy",
        [
            Rewrite(
                "_copy_words",
                "word = tl.load(source_words + index, mask=index < count)",
                "word = tl.load(source_words + index, mask=index <= count)",
            )
        ],
        "precopy/access/out-of-bounds/",
    ),
    "private_evidence": (
        "a number is written behind a buffer of the target's own",
        Postprocess(runner="V2", rows=(SHIFT,)),
        "postprocess",
        [
            Rewrite(
                "postprocess_kernel",
                "            tl.store(accepted_out + slot,",
                "            tl.store(accepted + 3, count)\n            tl.store(accepted_out + slot,",
            )
        ],
        "postprocess/memory/stray-write/private",
    ),
}


@pytest.mark.parametrize("check", WITNESSES)
def test_a_fault_that_one_check_alone_sees(
    check: str, make_case: Callable[..., Case], monkeypatch: pytest.MonkeyPatch, executor_name: str
) -> None:
    _, operation, file, rewrites, signature = WITNESSES[check]
    # An executor that watches accesses is the first to see a store behind a buffer: here the others are asked.
    watched = ("memory",) if check == "access_evidence" else ()
    if watched and executor_class("native").unavailable() is not None:
        pytest.skip("no executor here watches accesses")
    executor = create_executor(executor_name, watched)
    planted = Mutation("planted", "a fault of this test", {"builtin": {f"fused/{file}.py": [rewrites]}})
    case = make_case(operation, tables=(((1, 2, 2),), ((3, 4, 4),)))

    outcome = Session(BuiltinTarget(executor, [planted]), executor).check(case)
    assert str(outcome.signature).startswith(signature)
    assert Session(BuiltinTarget(executor), executor).check(case).failure is None

    monkeypatch.setattr(harness.check.session, check, lambda *_: None)
    blind = Session(BuiltinTarget(executor, [planted]), executor).check(case)
    assert [verdict.status for verdict in blind.verdicts] == ["pass"]

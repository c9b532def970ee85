"""Kernels write states and results. A store to a table, an input or metadata is reported where it happens."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.case import Case, Operation, Postprocess, PostprocessRow, Precopy, PrecopyRow
from harness.check.session import Session
from harness.kernels.executors.registry import create_executor, executor_class
from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.targets.builtin import BuiltinTarget

MOVE = Precopy(runner="V2", rows=(PrecopyRow(slot=0, source_column=0, destination_column=1, bias=0),))
SHIFT = PostprocessRow(slot=0, scheduled=3, computed=2, draft=2, accepted=2, state_column=0)

PLANTED: dict[str, tuple[Operation, Rewrite, str, str]] = {
    "a cell of a table": (
        MOVE,
        Rewrite(
            "look_up_blocks",
            "    return source_block",
            "    tl.store(cells + destination_column, 1, mask=inside)\n    return source_block",
        ),
        "precopy/access/read-only/table/-",
        "4-byte store into read-only block table of group 0, slot 0, column 1; "
        "precopy_kernel, harness/kernels/fused/copy.py:",
    ),
    "a record": (
        MOVE,
        Rewrite(
            "look_up_tile",
            "    return address",
            "    tl.store(tile + TILE_UNIT, unit_and_kind)\n    return address",
        ),
        "precopy/access/read-only/private/-",
        "8-byte store into read-only the target's private memory, tiles, element ",
    ),
    "an input": (
        Postprocess(runner="V1", rows=(SHIFT,)),
        Rewrite("postprocess_kernel", "tl.store(result + slot, 1,", "tl.store(accepted + slot, 1,"),
        "postprocess/access/read-only/accepted/-",
        "4-byte store into read-only operation 0, accepted[0]",
    ),
}


@pytest.mark.parametrize("what", PLANTED)
def test_a_store_into(what: str, make_case: Callable[..., Case]) -> None:
    if executor_class("native").unavailable() is not None:
        pytest.skip("no executor here watches accesses")
    operation, rewrite, signature, message = PLANTED[what]
    file = "postprocess" if isinstance(operation, Postprocess) else "copy"
    planted = Mutation("planted", "a fault of this test", {"builtin": {f"fused/{file}.py": [[rewrite]]}})
    executor = create_executor("native", ("memory",))
    outcome = Session(BuiltinTarget(executor, [planted]), executor).check(make_case(operation))
    assert str(outcome.signature) == signature
    failure = outcome.failure
    assert failure is not None
    assert failure.evidence is not None
    place, _, code = message.partition("; ")
    assert failure.evidence.summary.startswith(place)
    assert code in failure.evidence.summary


def test_what_a_postprocess_of_the_other_runner_writes(make_case: Callable[..., Case]) -> None:
    """The same array: a result where counts are updated in place."""
    executor = create_executor("native" if executor_class("native").unavailable() is None else "interpreter")
    outcome = Session(BuiltinTarget(executor), executor).check(make_case(Postprocess(runner="V2", rows=(SHIFT,))))
    assert [verdict.status for verdict in outcome.verdicts] == ["pass"]

"""Findings of an instrumented executor: planted faults on cases made for them are found and named."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
import pytest

from harness.case import (
    Case,
    Check,
    ConvState,
    Execution,
    Layout,
    Operation,
    Postprocess,
    PostprocessRow,
    Precopy,
    PrecopyRow,
    ScalarCopy,
)
from harness.check.outcome import Outcome
from harness.check.session import Session
from harness.kernels.executors.registry import create_executor, executor_class
from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.mutations.registry import mutation
from harness.kernels.targets.builtin import BuiltinTarget

pytestmark = pytest.mark.skipif(
    executor_class("native").unavailable() is not None, reason="nothing here is instrumented"
)

MOVE = Precopy(runner="V1", rows=(PrecopyRow(slot=0, source_column=0, destination_column=1, bias=0),))
TWO_MOVE = Precopy(
    runner="V1",
    rows=tuple(PrecopyRow(slot=slot, source_column=0, destination_column=1, bias=0) for slot in range(2)),
)
SHIFT = PostprocessRow(slot=0, scheduled=3, computed=2, draft=2, accepted=2, state_column=0)


def wide(layout: Layout) -> Layout:
    """A conv state of group 0 that several warps share: 4 tokens x 192 elements of 2 bytes, in pages of 2048 bytes."""
    conv, temporal = layout.groups[0].layers[0].states
    (other,) = layout.groups[1].layers[0].states
    assert isinstance(conv, ConvState)
    row_stride = None if conv.row_stride is None else 8
    conv = msgspec.structs.replace(conv, window=4, dim=192, block_stride=2048, row_stride=row_stride)
    temporal = msgspec.structs.replace(temporal, offset=1792, block_stride=2048)
    other = msgspec.structs.replace(other, block_stride=2048)
    groups = tuple(
        msgspec.structs.replace(group, layers=(msgspec.structs.replace(group.layers[0], states=states),))
        for group, states in zip(layout.groups, ((conv, temporal), (other,)), strict=True)
    )
    buffers = (msgspec.structs.replace(layout.buffers[0], size=5 * 2048),)
    return msgspec.structs.replace(layout, groups=groups, buffers=buffers)


def outcome(case: Case, *mutations: Mutation, checks: tuple[Check, ...] | None = None, high: bool = False) -> Outcome:
    execution = Execution(high_addresses=high) if checks is None else Execution(high_addresses=high, checks=checks)
    executor = create_executor("native")
    return Session(BuiltinTarget(executor, mutations), executor).check(
        msgspec.structs.replace(case, execution=execution)
    )


def text_of(result: Outcome) -> str:
    failure = result.failure
    assert failure is not None
    assert failure.evidence is not None
    return failure.evidence.summary


def test_a_count_written_in_place(make_case: Callable[..., Case]) -> None:
    case = make_case(Postprocess(runner="V2", rows=(SHIFT,)), tables=(((1, 2, 2),), ((3, 4, 4),)))
    found = outcome(case, mutation("stale-accept"))
    assert str(found.signature) == "postprocess/race/between-programs/accepted/-"
    assert "operation 0, accepted[0] (slot 0)" in text_of(found)


@pytest.mark.parametrize(("conv_layout", "between"), [("SD", "programs"), ("DS", "warps")])
def test_a_shift_without_order(
    conv_layout: str, between: str, make_case: Callable[..., Case], make_layout: Callable[..., Layout]
) -> None:
    """An SD window is moved as several tiles if the kernel misses that it is shifted inside its block."""
    case = make_case(
        Postprocess(runner="V1", rows=(SHIFT,)),
        layout=wide(make_layout(conv_layout)),
        tables=(((1, 2, 2),), ((3, 4, 4),)),
    )
    found = outcome(case, mutation("unordered-shift"))
    assert str(found.signature) == f"postprocess/race/between-{between}/conv/{conv_layout}"
    assert outcome(case).failure is None


def test_a_missing_barrier(make_case: Callable[..., Case], make_layout: Callable[..., Layout]) -> None:
    """Source and destination are one block, its tokens 384 bytes apart."""
    case = make_case(
        ScalarCopy(rows=(PrecopyRow(slot=0, source_column=0, destination_column=1, bias=1),)),
        layout=wide(make_layout()),
        tables=(((1, 1, 2),), ((3, 3, 4),)),
    )
    found = outcome(case, mutation("missing-barrier"))
    assert str(found.signature) == "scalar-copy/race/between-warps/conv/SD"
    assert re.search(
        r" at harness/kernels/fused/batch_copy\.py:\d+ \(_copy_steps\), called from :\d+ \(batch_copy_kernel\);",
        text_of(found),
    )
    assert outcome(case).failure is None


def test_two_requests_with_one_destination(make_case: Callable[..., Case], make_layout: Callable[..., Layout]) -> None:
    tables = (((1, 2), (3, 4)), ((5, 6), (7, 8)))
    layout = msgspec.structs.replace(
        make_layout(), num_blocks=9, buffers=(msgspec.structs.replace(make_layout().buffers[0], size=576),)
    )
    case = make_case(TWO_MOVE, layout=layout, tables=tables, owners=(-1, 0, 0, 0, 0, 1, 1, 1, 1))
    found = outcome(case, mutation("shared-destination"))
    assert str(found.signature) == "precopy/race/between-programs/temporal/-"
    assert "between programs (0, 0, 0) and (" in text_of(found)
    assert "(column 1 of slot 0)" in text_of(found)
    assert outcome(case).failure is None


def test_a_stale_cell_that_steers_an_address(make_case: Callable[..., Case]) -> None:
    found = outcome(make_case(MOVE), mutation("stale-cell"))
    assert str(found.signature) == "precopy/undefined/address/table/-"
    assert text_of(found).startswith(
        "block table of group 0, slot 0, column 2 was never defined, and decides an address in precopy_kernel, "
    )


def test_a_state_never_written_that_is_copied(make_case: Callable[..., Case]) -> None:
    found = outcome(make_case(MOVE), mutation("never-written"))
    assert str(found.signature) == "precopy/undefined/bytes/temporal/-"
    assert "block 2 (column 1 of slot 0)" in text_of(found)
    assert "copied from memory that was never written" in text_of(found)


def test_an_address_kept_as_a_signed_number(make_case: Callable[..., Case]) -> None:
    assert outcome(make_case(MOVE), mutation("signed-address")).failure is None
    found = outcome(make_case(MOVE), mutation("signed-address"), high=True)
    assert str(found.signature) == "precopy/memory/wrong-bytes/temporal/-"
    assert outcome(make_case(MOVE), high=True).failure is None


def test_host_code_sees_high_addresses(make_case: Callable[..., Case]) -> None:
    """Unchanged, they do not fit a signed tensor."""
    planted = Mutation(
        "planted",
        "a fault of this test",
        {
            "builtin": {
                "fused/context.py": [[Rewrite("signed", "address - 2**64 if address >= 2**63 else address", "address")]]
            }
        },
    )
    assert outcome(make_case(MOVE), planted).failure is None
    found = outcome(make_case(MOVE, domain="reachable"), planted, high=True)
    assert str(found.signature) == "precopy/exception/ValueError/call/-"


SNAPSHOTS = {
    "copied": "self._snapshot.copy_(accepted[: self._table_rows])",
    "copied twice": "self._snapshot.copy_(accepted[: self._table_rows].clone())",
    "by way of another type": "self._snapshot.copy_(accepted[: self._table_rows].long())",
    "picked": "self._snapshot.copy_(accepted[torch.arange(self._table_rows)])",
    "picked into place": (
        "torch.index_select(accepted, 0, torch.arange(self._table_rows), out=self._snapshot[: self._table_rows])"
    ),
}
"""Ways in which host code may copy the counts, all of them right."""

READS_STALE = Rewrite(
    "postprocess_kernel",
    "                moves = reaches &",
    "                if tl.load(result + 1) > 99:\n                    tl.store(accepted + slot, 99)\n"
    "                moves = reaches &",
)
"""A kernel reads the count of a row that no request has, from a copy of the counts."""


def copying(how: str) -> list[Rewrite]:
    """A context that copies the counts before a launch, and gives the kernel the copy."""
    zero = "        self._counters.zero_()\n"
    snapshot = (
        '        self._snapshot = allocate("accepted_snapshot", (self._table_rows,), torch.int32)\n'
        "        self._snapshot.zero_()\n"
    )
    launch = "        postprocess_kernel[(self._programs, 1, 1)](\n            accepted,\n"
    return [
        Rewrite("FusedContext.__init__", zero, zero + snapshot),
        Rewrite(
            "FusedContext.postprocess_in_place",
            f"{launch}            None,\n",
            f"        {how}\n{launch}            self._snapshot,\n",
        ),
    ]


@pytest.mark.parametrize("how", SNAPSHOTS)
@pytest.mark.parametrize("high", [False, True])
def test_what_host_code_copies_stays_undefined(how: str, high: bool, make_case: Callable[..., Case]) -> None:
    """A kernel reads a stale count from a copy of the counts: only this check sees it."""
    operation = Postprocess(runner="V2", rows=(SHIFT,))
    layout = msgspec.structs.replace(make_case(operation).layout, table_rows=2)
    case = make_case(operation, layout=layout, tables=(((1, 2, 2),), ((3, 4, 4),)))
    copies = copying(SNAPSHOTS[how])
    right = Mutation("planted", "no fault", {"builtin": {"fused/context.py": [copies]}})
    wrong = Mutation(
        "planted", "a fault", {"builtin": {"fused/context.py": [copies], "fused/postprocess.py": [[READS_STALE]]}}
    )
    assert outcome(case, right, high=high).failure is None
    found = outcome(case, wrong, high=high)
    assert str(found.signature) == "postprocess/undefined/branch/private/-"
    assert outcome(case, wrong, checks=("memory", "races"), high=high).failure is None


ROW = "self._snapshot[1:2]"
OVERWRITTEN = {
    "clamp": f"torch.clamp(torch.ones_like({ROW}), 0, 1, out={ROW})",
    "cat": f"torch.cat([torch.ones_like({ROW})], out={ROW})",
    "stack": f"torch.stack([torch.ones(1, dtype=torch.int32)[0]], out={ROW})",
    "gather": f"torch.gather(torch.ones_like({ROW}), 0, torch.arange(1), out={ROW})",
    "cumsum": f"torch.cumsum(torch.ones_like({ROW}), 0, out={ROW})",
    "arange": f"torch.arange(1, out={ROW})",
    "two results": f"torch.max(torch.ones(1, 1, dtype=torch.int32), 0, out=({ROW}, torch.arange(1)))",
    "several": f"torch._foreach_zero_([{ROW}])",
    "several results": f"torch.split_copy(torch.ones(1, dtype=torch.int32), 1, out=[{ROW}])",
    "numpy": "self._snapshot.numpy()[1:] = 0",
    "an array": "__import__('numpy').asarray(self._snapshot)[1:] = 0",
    "DLPack": "torch.from_dlpack(self._snapshot)[1:] = 0",
    "a function": f"{ROW}.apply_(lambda count: 0)",
    "numpy, from before": "self._view[1:] = 0",
    "numpy, and copied on": (
        "view = self.accepted_out.numpy()\n        self.accepted_out.copy_(accepted[: self._table_rows])\n"
        "        view[1:] = 0\n        self._snapshot.copy_(self.accepted_out)"
    ),
    "numpy, outside of the arena": (
        "copied = accepted[: self._table_rows].clone()\n        copied.numpy()[1:] = 0\n"
        "        self._snapshot.copy_(copied)"
    ),
    "DLPack, outside of the arena": (
        "copied = accepted[: self._table_rows].clone()\n"
        "        __import__('numpy').from_dlpack(copied)[1:] = 0\n        self._snapshot.copy_(copied)"
    ),
    "a storage, outside of the arena": (
        "copied = accepted[: self._table_rows].clone()\n"
        "        copied.untyped_storage()[4:] = 0\n        self._snapshot.copy_(copied)"
    ),
}
"""Ways in which host code may give every row of its copy a count."""


@pytest.mark.parametrize("how", OVERWRITTEN)
@pytest.mark.parametrize("high", [False, True])
def test_what_host_code_overwrites_is_defined(how: str, high: bool, make_case: Callable[..., Case]) -> None:
    operation = Postprocess(runner="V2", rows=(SHIFT,))
    layout = msgspec.structs.replace(make_case(operation).layout, table_rows=2)
    case = make_case(operation, layout=layout, tables=(((1, 2, 2),), ((3, 4, 4),)))
    rewrites = copying(f"{SNAPSHOTS['copied']}\n        {OVERWRITTEN[how]}")
    if "self._view" in OVERWRITTEN[how]:
        zero = "self._snapshot.zero_()"
        rewrites.append(Rewrite("FusedContext.__init__", zero, f"{zero}\n        self._view = self._snapshot.numpy()"))
    planted = Mutation(
        "planted", "no fault", {"builtin": {"fused/context.py": [rewrites], "fused/postprocess.py": [[READS_STALE]]}}
    )
    assert outcome(case, planted, high=high).failure is None


HARMLESS: dict[str, tuple[Operation, str, list[Rewrite], str]] = {
    "a branch on a stale count": (
        Postprocess(runner="V2", rows=(SHIFT,)),
        "postprocess",
        [
            Rewrite(
                "postprocess_kernel",
                "                moves = reaches &",
                "                if tl.load(state_column + 1) > 99:\n"
                "                    tl.store(accepted + slot, 99)\n"
                "                moves = reaches &",
            )
        ],
        "postprocess/undefined/branch/state_column/-",
    ),
    "a count calculated from a stale one": (
        Postprocess(runner="V2", rows=(SHIFT,)),
        "postprocess",
        [
            Rewrite("postprocess_kernel", "_reset(accepted, slot,", "_reset(accepted, state_column, slot,"),
            Rewrite("_reset", "(accepted, slot, lanes,", "(accepted, state_column, slot, lanes,"),
            Rewrite("_reset", "slot, 1, mask", "slot, 1 + tl.load(state_column + 1) // 1000000, mask"),
        ],
        "postprocess/undefined/bytes/accepted/-",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("what", HARMLESS)
def test_what_no_byte_shows(what: str, make_case: Callable[..., Case]) -> None:
    """Only this check sees it: without it, the faulty target passes."""
    operation, file, rewrites, signature = HARMLESS[what]
    planted = Mutation("planted", "a fault of this test", {"builtin": {f"fused/{file}.py": [rewrites]}})
    case = make_case(operation, tables=(((1, 2, 2),), ((3, 4, 4),)))
    assert str(outcome(case, planted).signature) == signature
    assert outcome(case, planted, checks=("memory", "races")).failure is None
    assert outcome(case).failure is None


def test_races_are_looked_for_only_if_asked(make_case: Callable[..., Case]) -> None:
    case = make_case(Postprocess(runner="V2", rows=(SHIFT,)), tables=(((1, 2, 2),), ((3, 4, 4),)))
    seen, unseen = (
        outcome(case, mutation("stale-accept"), checks=checks) for checks in (("memory", "races"), ("memory",))
    )
    assert str(seen.signature) == "postprocess/race/between-programs/accepted/-"
    assert str(unseen.signature) == "postprocess/memory/wrong-bytes/temporal/-"

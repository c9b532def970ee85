"""From a byte back to its place: every offset of the arena has a name, and the right one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.case import Buffer, Case, Layout, Postprocess, PostprocessRow
from harness.engines.hypothesis import cases
from harness.memory import Allocation, MemoryPlan, describe, plan_memory
from harness.memory.plan import OUTER_GUARD

# Owners in `make_case`: the null block has none, blocks 1 and 2 are group 0's, 3 and 4 group 1's.
BLOCK_NAMES = {
    (0, 0): "null block 0",
    (0, 1): "block 1 (column 0 of slot 0)",
    (0, 2): "block 2 (column 1 of slot 0)",
    (0, 3): "block 3 (of group 1)",
    (0, 4): "block 4 (of group 1)",
    (1, 3): "block 3 (column 0 of slot 0)",
    (1, 4): "block 4 (column 1 of slot 0)",
}


def page_bytes(conv_layout: str, block: int) -> Iterator[tuple[str, str]]:
    """Kind and name of the 64 bytes of a page, counted out by hand."""
    if block >= 3:  # group 1: four elements of 8 bytes; what lies behind belongs to group 0's tensors
        name = f"group 1, layer 0, temporal state 0, {BLOCK_NAMES[1, block]}"
        for byte in range(32):
            yield "temporal", f"{name}, element {byte // 8}, byte {byte % 8}"
    else:
        name = f"group 0, layer 0, conv state 0, {BLOCK_NAMES[0, block]}"
        whose = f"block {block} (of group 0)" if block else "null block 0"
        other = f"group 1, layer 0, temporal state 0, {whose}"
        for byte in range(32):
            if conv_layout == "SD" and byte < 24:  # three tokens of four elements of two bytes
                yield "conv", f"{name}, token {byte // 8}, row {byte % 8 // 2}, byte {byte % 2}"
            elif conv_layout == "DS" and byte % 8 < 6:  # four rows of three tokens, 8 bytes apart
                yield "conv", f"{name}, token {byte % 8 // 2}, row {byte // 8}, byte {byte % 2}"
            else:  # not a byte of group 0's conv state, but one of group 1's tensor
                yield "temporal", f"{other}, element {byte // 8}, byte {byte % 8}"
    name = f"group 0, layer 0, temporal state 1, {BLOCK_NAMES[0, block]}"
    for byte in range(24):
        yield "temporal", f"{name}, element {byte // 4}, byte {byte % 4}"
    following = block + 1 in range(5)
    owner = 1 if block + 1 >= 3 else 0
    for byte in range(8):
        if byte < 4 or not following:
            yield "padding", f"padding, {byte} byte{'s' * (byte != 1)} after {name}"
        else:
            state = "conv state 0" if owner == 0 else "temporal state 0"
            after = f"group {owner}, layer 0, {state}, {BLOCK_NAMES[owner, block + 1]}"
            yield "padding", f"padding, {8 - byte} byte{'s' * (byte != 7)} before {after}"


@pytest.mark.parametrize("conv_layout", ["SD", "DS"])
def test_every_byte_of_every_page(make_case: Callable[..., Case], conv_layout: str) -> None:
    case = make_case(conv_layout=conv_layout)
    plan = plan_memory(case, 32)
    for block in range(5):
        for byte, (kind, name) in enumerate(page_bytes(conv_layout, block)):
            place = describe(case, plan, plan.base.buffers[0] + 64 * block + byte)
            assert (place.kind, place.name) == (kind, name), (block, byte)


def test_gaps_between_ds_rows_and_what_is_before_any_state(
    make_case: Callable[..., Case], make_layout: Callable[..., Layout]
) -> None:
    whole = make_layout("DS")
    conv = whole.groups[0].layers[0].states[0]
    moved = conv.__class__(
        **{name: getattr(conv, name) for name in conv.__struct_fields__ if name != "offset"}, offset=16
    )
    group = whole.groups[0].__class__(layers=(whole.groups[0].layers[0].__class__(states=(moved,)),))
    case = make_case(
        layout=make_layout("DS", groups=(group,), buffers=(Buffer(size=400, misalignment=6),)),
        tables=(((1, 2),),),
        owners=(-1, 0, 0, 0, 0),
    )
    plan = plan_memory(case, 32)
    start = plan.base.buffers[0]
    assert [describe(case, plan, start + byte).name for byte in (0, 15)] == [
        "padding, 16 bytes before group 0, layer 0, conv state 0, null block 0",
        "padding, 1 byte before group 0, layer 0, conv state 0, null block 0",
    ]
    name = "group 0, layer 0, conv state 0, block 1 (column 0 of slot 0)"
    assert [describe(case, plan, start + 16 + 64 + byte).name for byte in (5, 6, 7, 8, 29, 30, 63)] == [
        f"{name}, token 2, row 0, byte 1",
        f"a gap between rows of {name}",
        f"a gap between rows of {name}",
        f"{name}, token 0, row 1, byte 0",
        f"{name}, token 2, row 3, byte 1",
        f"padding, 0 bytes after {name}",
        "padding, 1 byte before group 0, layer 0, conv state 0, block 2 (column 1 of slot 0)",
    ]
    last = describe(case, plan, start + 399)
    assert (last.kind, last.name) == (
        "padding",
        f"padding, {399 - 16 - 4 * 64 - 30} bytes after group 0, layer 0, conv state 0, "
        "block 4 (in no table of this group)",
    )


def test_every_byte_of_tables_arguments_and_guards(make_case: Callable[..., Case]) -> None:
    rows = (PostprocessRow(slot=1, scheduled=1, computed=1, draft=0, accepted=1, state_column=0),)
    case = make_case(Postprocess(runner="V1", rows=()), Postprocess(runner="V2", rows=rows))
    plan = plan_memory(case, 64)
    start = plan.base.buffers[0]
    first = start + 768 + OUTER_GUARD
    second = first + 512
    private, size = plan.base.private

    def expect(offset: int, kind: str, name: str) -> None:
        place = describe(case, plan, offset)
        assert (place.kind, place.name) == (kind, name), offset

    for group, table in enumerate((first, second)):
        for byte in range(48):
            name = f"block table of group {group}, slot {byte // 16}, column {byte % 16 // 4}"
            expect(table + byte, "table", name)
    expect(0, "guard", f"no object, {start} bytes before buffer 0")
    expect(start - 1, "guard", "no object, 1 byte before buffer 0")
    expect(start + 320, "guard", "no object, 0 bytes after buffer 0")
    expect(start + 320 + 223, "guard", "no object, 223 bytes after buffer 0")
    expect(first - 1, "guard", "no object, 1 byte before the block table of group 0")
    expect(first + 48, "guard", "no object, 0 bytes after the block table of group 0")
    expect(private - 1, "guard", "no object, 1 byte before the target's private memory")
    expect(private, "private", "the target's private memory, byte 0")
    expect(private + size - 1, "private", f"the target's private memory, byte {size - 1}")
    plan.base.allocated[:] = [Allocation("strides", private + 256, 24, 8), Allocation("tiles", private + 768, 8, 4)]
    expect(private + 255, "private", "the target's private memory, byte 255")
    expect(private + 256 + 16, "private", "the target's private memory, strides, element 2")
    expect(private + 256 + 19, "private", "the target's private memory, strides, element 2 (byte 3)")
    expect(private + 256 + 24, "private", f"the target's private memory, byte {256 + 24}")
    expect(private + 768 + 4, "private", "the target's private memory, tiles, element 1")
    for index, what in ((0, "slot"), (1, "slot")):
        accepted = plan.arrays[index]["accepted"]
        for byte in range(12):
            expect(
                accepted.start + byte,
                "accepted",
                f"operation {index}, accepted[{byte // 4}] ({what} {byte // 4})",
            )
        expect(accepted.start - 1, "guard", f"no object, 1 byte before accepted of operation {index}")
        expect(accepted.start + 12, "guard", f"no object, 0 bytes after accepted of operation {index}")
    mapping = plan.arrays[1]["mapping"]
    for byte in range(8):
        expect(mapping.start + byte, "mapping", "operation 1, mapping[0] (batch row 0)")
    expect(mapping.start + 8, "guard", "no object, 0 bytes after mapping of operation 1")
    last = mapping.start + 8
    expect(plan.size - 1, "guard", f"no object, {plan.size - 1 - last} bytes after mapping of operation 1")


def test_a_block_in_many_cells_is_named_after_two(make_case: Callable[..., Case]) -> None:
    case = make_case(tables=(((1, 1, 1, 2), (2, 1)), ((3, 4),)))
    plan = plan_memory(case, 32)
    assert "block 1 (column 0 of slot 0, column 1 of slot 0 and 2 more)" in (
        describe(case, plan, plan.base.states[0].block(1)).name
    )
    assert "block 2 (column 3 of slot 0, column 0 of slot 1)" in (
        describe(case, plan, plan.base.states[0].block(2)).name
    )


CASES = cases(("reachable", "total"))

KINDS = {"conv", "temporal", "padding", "guard", "table", "private", "mapping", "accepted", "state_column"}
KINDS |= {"scheduled", "computed", "draft", "new_computed", "destination_column", "source_column", "bias"}


@given(CASES, st.data())
def test_every_offset_is_something(case: Case, data: st.DataObject) -> None:
    plan: MemoryPlan = plan_memory(case, 32)
    offset = data.draw(st.integers(0, plan.size - 1))
    place = describe(case, plan, offset)
    assert place.kind in KINDS
    assert place.name
    assert "\n" not in place.name
    if place.kind in ("conv", "temporal"):
        assert any(
            0 <= offset - state.start < case.layout.num_blocks * state.state.block_stride for state in plan.base.states
        )


@given(CASES)
def test_first_and_last_byte_of_every_block_is_of_a_state(case: Case) -> None:
    plan = plan_memory(case, 32)
    for state in plan.base.states:
        for block in (0, 1, case.layout.num_blocks - 1):
            for offset in (state.block(block), state.block(block) + state.extent - 1):
                place = describe(case, plan, offset)
                assert place.kind in ("conv", "temporal")
                owner = case.contents.owners[block]
                if owner == state.group:
                    assert place.name.startswith(f"group {owner}, ")

"""A block move is a load or store of consecutive elements, done at once if all of it is allowed.

The compiled runtime (`move` in runtime_ir) tests the whole range and copies it. Only if a part is not allowed does it
go lane by lane and record faults. Most accesses of copy kernels are block moves, and a call needs much less code
than a loop.
"""

from __future__ import annotations

from harness.kernels.executors.native.abi import UNDEFINED_ADDRESS, UNDEFINED_BRANCH
from harness.kernels.executors.native.lanes import Index, LaneBuffer, LaneBuilder, Lanes, Value
from harness.kernels.executors.native.types import Element, Integer, Tensor, stored_bytes, stored_llvm


def is_block(pointer: Lanes, element: Element) -> bool:
    """Whether the pointers are those of consecutive elements. Booleans do not qualify: they take a byte in memory."""
    form = pointer.progression
    return form is not None and form.step == stored_bytes(element) and element != Integer(1)


def bounded(builder: LaneBuilder, mask: Value | None) -> str | None:
    """How many lanes need to be examined, an i64 operand, if the mask allows none beyond; None if that is not known."""
    prefix = mask.prefix if isinstance(mask, Lanes) else None
    if prefix is None or not isinstance(mask, Lanes):
        return None
    count = prefix.count()
    if prefix.guard is None:
        return count
    return builder.value(f"select i1 {prefix.guard()}, i64 {count}, i64 {mask.shape[0]}")


def load_block(
    builder: LaneBuilder,
    site: int,
    pointer: Lanes,
    element: Element,
    mask: Value | None,
    other: Value | None,
    epoch: str,
) -> LaneBuffer:
    """Load into a new buffer; masked-off and refused lanes get `other`, or 0."""
    buffer = builder.buffer(Tensor(pointer.shape, element))
    clear = other is None or _is_zero(other)
    if other is not None and not clear:
        builder.keep(buffer, other)
    _move(builder, site, pointer, mask, buffer, epoch, is_store=False, clear=clear)
    return buffer


def store_block(
    builder: LaneBuilder,
    site: int,
    pointer: Lanes,
    element: Element,
    value: Value,
    mask: Value | None,
    epoch: str,
) -> None:
    """Store a tensor, from its buffer if it has one."""
    buffer = value.buffer if isinstance(value, Lanes) else None
    if buffer is None:
        buffer = builder.buffer(Tensor(pointer.shape, element))
        builder.keep(buffer, value)
    _move(builder, site, pointer, mask, buffer, epoch, is_store=True, clear=False)


def _move(
    builder: LaneBuilder,
    site: int,
    pointer: Lanes,
    mask: Value | None,
    buffer: LaneBuffer,
    epoch: str,
    *,
    is_store: bool,
    clear: bool,
) -> None:
    assert pointer.progression is not None
    lanes = pointer.shape[0]
    count, bytes_ = str(lanes), "null"
    prefix = mask.prefix if isinstance(mask, Lanes) else None
    if mask is not None and prefix is not None and (shadow := builder.shadow(mask, ("0",))):
        # All lanes of a prefix are calculated from the same scalars, so one lane is enough.
        report_undefined(builder, site, mask.element, shadow, "0", UNDEFINED_BRANCH)
    if prefix is not None and prefix.guard is None:
        count = prefix.count()
    elif prefix is not None and prefix.guard is not None:
        # The mask is a prefix unless its offsets wrap around.
        assert mask is not None
        wrapping, ready = builder.label("wrapping"), builder.label("masked")
        straight = prefix.count()
        before = builder.block
        builder.branch(prefix.guard(), ready, wrapping, likely=True)
        builder.start(wrapping)
        evaluated = _mask_bytes(builder, mask, lanes, None)
        after = builder.block
        builder.jump(ready)
        builder.start(ready)
        count = builder.phi("i64", [(straight, before), (str(lanes), after)])
        bytes_ = builder.phi("ptr", [("null", before), (evaluated, after)])
    elif mask is not None:
        bytes_ = _mask_bytes(builder, mask, lanes, site)
    width = stored_bytes(buffer.type.element)
    if shadow := builder.shadow(pointer, ("0",)):
        some = builder.value(f"icmp ne i64 {count}, 0")
        report_undefined(builder, site, pointer.element, shadow, "0", UNDEFINED_ADDRESS, some)
    builder.effect(
        f"call void @move(ptr %launch, i64 %program, i64 {epoch}, i64 {site}, i64 {width},"
        f" i64 {pointer.progression.first()},"
        f" i64 {count}, ptr {bytes_}, i64 {lanes}, i1 {int(is_store)}, i1 {int(clear)}, ptr {buffer.pointer},"
        f" ptr {buffer.shadow or 'null'})"
    )


def report_undefined(
    builder: LaneBuilder, site: int, element: Element, shadow: str, lane: str, kind: int, condition: str = ""
) -> None:
    """Report that something depends on an undefined value, if any of `shadow` is set (and `condition` holds)."""
    undefined = builder.value(f"icmp ne {stored_llvm(element)} {shadow}, 0")
    if condition:
        undefined = builder.value(f"and i1 {undefined}, {condition}")
    fine, report = builder.label("defined"), builder.label("undefined")
    builder.branch(builder.value(f"xor i1 {undefined}, true"), fine, report, likely=True)
    builder.start(report)
    builder.effect(f"call void @undefined(ptr %launch, i64 {site}, i64 {lane}, i64 %program, i64 {kind})")
    builder.jump(fine)
    builder.start(fine)


def _mask_bytes(builder: LaneBuilder, mask: Value, lanes: int, site: int | None) -> str:
    """A pointer to one byte for each lane of the mask; undefined ones are reported unless `site` is None."""
    buffer = builder.buffer(Tensor((lanes,), Integer(1)))

    def put(index: Index) -> None:
        shadow = builder.shadow(mask, index)
        if shadow and site is not None:
            report_undefined(builder, site, mask.element, shadow, index[0], UNDEFINED_BRANCH)
        builder.put(buffer, index, builder.lane(mask, index), shadow)

    builder.each_lane((lanes,), put)
    return buffer.pointer


def _is_zero(other: Value) -> bool:
    form = other.progression if isinstance(other, Lanes) else None
    return form is not None and form.known == 0 == form.step

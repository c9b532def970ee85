"""An access is one lane's load or store. This module emits accesses, each guarded by a test that it is allowed.

The test is inlined: is the access in the span that its site hit last, and is it aligned for its width? If not,
`check` (see runtime_ir) searches all spans and records a fault if no span fits; the access is then left out.
Compiled without checks, accesses have no test. Compiled to record, each access that happens is appended to the record
of accesses, which the race oracle reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from harness.accesses import MemoryOrder
from harness.kernels.executors.base import ExecutorCannot
from harness.kernels.executors.native import arithmetic
from harness.kernels.executors.native.abi import MISALIGNED, UNDEFINED_ADDRESS, UNDEFINED_BRANCH, WATCH, WORD
from harness.kernels.executors.native.block_moves import bounded, is_block, load_block, report_undefined, store_block
from harness.kernels.executors.native.ir import Operation
from harness.kernels.executors.native.lanes import Index, LaneBuilder, Lanes, Scalar, Value
from harness.kernels.executors.native.source_lines import SourceLine
from harness.kernels.executors.native.types import Element, Pointer, Tensor, stored_bytes, stored_llvm

ATOMIC = {"add": "addi", "exch": "", "and": "andi", "or": "ori", "xor": "xori", "max": "maxsi", "min": "minsi"}
"""How an atomic access combines its operand with the old value; empty where it replaces the old value."""
ORDERS: Mapping[str, MemoryOrder] = {
    "relaxed": "relaxed",
    "acquire": "acquire",
    "release": "release",
    "acq_rel": "acq_rel",
}
"""The memory order of an atomic access, as TTIR spells it."""


@dataclass(frozen=True)
class AccessSite:
    """A load or store of the kernel's source: its line, and the `width` bytes of each lane.

    `shape` is that of the tensor, empty for a scalar. `used` is false for a load whose value is never used. `order` is
    the memory order of an atomic access, empty for any other.
    """

    line: SourceLine | None
    is_store: bool
    width: int
    shape: tuple[int, ...] = ()
    used: bool = True
    order: MemoryOrder = ""
    callers: tuple[SourceLine, ...] = ()


class AccessWriter:
    """Emits loads and stores, and numbers their sites."""

    def __init__(
        self,
        builder: LaneBuilder,
        *,
        checks: bool,
        epoch: Callable[[], str] | None,
        is_used: Callable[[str], bool],
        apart: bool = False,
    ) -> None:
        """`epoch` emits the number of barriers passed; None if accesses are not recorded. `apart`: `%warp` is one of
        the program's warps, which stores only what it owns."""
        self._apart = apart
        self.sites: list[AccessSite] = []
        self._builder = builder
        self._checks = checks
        self._epoch = epoch
        self._is_used = is_used

    def load(self, operation: Operation, operands: list[Value]) -> Value:
        """`tt.load`: pointer, then optionally a mask, then optionally the value of masked-off lanes (0 by default)."""
        pointer, mask, other = _parts(operation, operands)
        element = _pointee(pointer)
        site = self._site(operation, element, pointer, is_store=False)
        if isinstance(pointer, Scalar):
            return Scalar(element, *self._load_lane(element, site, pointer, mask, other, ()))
        # All lanes load before anything else happens, as on a GPU.
        builder = self._builder
        if is_block(pointer, element):
            return builder.kept(load_block(builder, site, pointer, element, mask, other, self._now()))
        buffer = builder.buffer(Tensor(pointer.shape, element))
        count = bounded(builder, mask)
        if count is not None and other is not None:
            builder.keep(buffer, other)
        elif count is not None:
            builder.clear(buffer, count)
        builder.each_lane(
            pointer.shape,
            lambda index: builder.put(buffer, index, *self._load_lane(element, site, pointer, mask, other, index)),
            count,
        )
        return builder.kept(buffer)

    def store(self, operation: Operation, operands: list[Value]) -> None:
        """`tt.store`: pointer, value, then optionally a mask."""
        pointer, value, mask = _parts(operation, operands)
        assert value is not None
        element = _pointee(pointer)
        site = self._site(operation, element, pointer, is_store=True)
        if isinstance(pointer, Lanes) and is_block(pointer, element) and not self._apart:
            store_block(self._builder, site, pointer, element, value, mask, self._now())
            return
        shape = pointer.shape if isinstance(pointer, Lanes) else ()
        self._builder.each_lane(
            shape,
            lambda index: self._store_lane(element, site, pointer, value, mask, index),
            bounded(self._builder, mask),
        )

    def atomic(self, operation: Operation, operands: list[Value]) -> Value:
        """`tt.atomic_rmw` of one number: pointer, operand, then optionally a mask. Returns the old value.

        Where warps are apart, the caller sees to it that one of them gets here.
        """
        pointer, operand, mask = _parts(operation, operands)
        kind, order = str(operation.attributes["kind"]), operation.attributes["order"]
        if kind not in ATOMIC or not isinstance(pointer, Scalar) or operand is None:
            raise ExecutorCannot(f"the native executor has no atomic {kind} here")
        builder = self._builder
        element = _pointee(pointer)
        llvm = stored_llvm(element)
        site = self._site(operation, element, pointer, is_store=True)
        if operation.attributes["scope"] in ("gpu", "sys"):
            self.sites[site] = replace(self.sites[site], order=ORDERS[str(order)])
        else:
            self.sites[site] = replace(self.sites[site], order="relaxed")
        kept = builder.slot(llvm) if self._epoch else ""

        def update(address: str) -> list[str]:
            place = builder.value(f"inttoptr i64 {self._real(address)} to ptr")
            before = builder.value(f"load {llvm}, ptr {place}, align 1")
            after = builder.lane(operand, ())
            if ATOMIC[kind]:
                after = arithmetic.binary(builder, ATOMIC[kind], 8 * stored_bytes(element), before, after)
            if kept:
                builder.effect(f"store {llvm} {after}, ptr {kept}")
                self._record(site, pointer, address, (), kept)
            builder.effect(f"store {llvm} {after}, ptr {place}, align 1")
            if not builder.tracking:
                return [before]
            shadows = builder.value(f"inttoptr i64 {builder.value(f'add i64 {address}, %shadows')} to ptr")
            undefined = builder.value(f"load {llvm}, ptr {shadows}, align 1")
            self._note_origin(llvm, undefined, address)
            left = [Scalar(element, before, undefined)] if ATOMIC[kind] else []
            joined = builder.joined(element, [*left, operand], ()) or "0"
            builder.effect(f"store {llvm} {joined}, ptr {shadows}, align 1")
            return [before, undefined]

        fallback = ["0", "0"][: 1 + builder.tracking]
        found = self._guarded(site, pointer, mask, (), update, llvm, fallback, owned=True)
        return Scalar(element, found[0], found[1] if builder.tracking else "")

    def _site(self, operation: Operation, element: Element, pointer: Value, *, is_store: bool) -> int:
        shape = pointer.shape if isinstance(pointer, Lanes) else ()
        used = is_store or self._is_used(operation.results[0])
        width = stored_bytes(element)
        self.sites.append(AccessSite(operation.line, is_store, width, shape, used, callers=operation.callers))
        return len(self.sites) - 1

    def _now(self) -> str:
        """The number of barriers passed; 0 where it is not needed."""
        return self._epoch() if self._epoch else "0"

    def _record(self, site: int, pointer: Value, address: str, index: Index, value: str) -> None:
        if self._epoch is None:
            return
        builder = self._builder
        number = self._number(pointer, index)
        builder.effect(
            f"call void @record(ptr %launch, i64 %program, i64 {self._now()}, i64 {site}, i64 {address},"
            f" i64 {number}, i64 1, i64 {self.sites[site].width}, ptr {value})"
        )

    def _load_lane(
        self, element: Element, site: int, pointer: Value, mask: Value | None, other: Value | None, index: Index
    ) -> tuple[str, str]:
        """The lane and its shadow."""
        builder, llvm = self._builder, stored_llvm(element)
        fallback = [builder.to_stored(element, builder.lane(other, index)) if other is not None else "0"]
        if builder.tracking:
            fallback.append(builder.shadow(other, index) or "0")

        def read(address: str) -> list[str]:
            self._record(site, pointer, address, index, "null")
            place = builder.value(f"inttoptr i64 {self._real(address)} to ptr")
            read = [builder.value(f"load {llvm}, ptr {place}, align 1")]
            if builder.tracking:
                read.append(builder.value(f"load {llvm}, ptr {self._shadow_place(address)}, align 1"))
                self._note_origin(llvm, read[1], address)
            return read

        loaded = self._guarded(site, pointer, mask, index, read, llvm, fallback)
        return builder.from_stored(element, loaded[0]), loaded[1] if builder.tracking else ""

    def _store_lane(
        self, element: Element, site: int, pointer: Value, value: Value, mask: Value | None, index: Index
    ) -> None:
        builder, llvm = self._builder, stored_llvm(element)

        kept = builder.slot(llvm) if self._epoch else ""

        def write(address: str) -> list[str]:
            operand = builder.to_stored(element, builder.lane(value, index))
            if kept:
                builder.effect(f"store {llvm} {operand}, ptr {kept}")
                self._record(site, pointer, address, index, kept)
            place = builder.value(f"inttoptr i64 {self._real(address)} to ptr")
            builder.effect(f"store {llvm} {operand}, ptr {place}, align 1")
            if builder.tracking:
                shadow = builder.shadow(value, index) or "0"
                builder.effect(f"store {llvm} {shadow}, ptr {self._shadow_place(address)}, align 1")
            return []

        self._guarded(site, pointer, mask, index, write, llvm, [])

    def branch(self, operation: Operation, values: list[Value]) -> None:
        """Report a branch that depends on an undefined value: a site without an access."""
        self.sites.append(AccessSite(operation.line, False, 0, used=False, callers=operation.callers))
        for value in values:
            shadow = self._builder.shadow(value, ())
            if shadow:
                report_undefined(self._builder, len(self.sites) - 1, value.element, shadow, "0", UNDEFINED_BRANCH)

    def promise(self, operation: Operation, address: Scalar, divisor: int) -> None:
        """Report an address that is not a multiple of what the kernel promises the compiler: a site without an access.

        On a GPU the accesses that rely on the promise fault.
        """
        self.sites.append(AccessSite(operation.line, False, divisor, used=False, callers=operation.callers))
        builder = self._builder
        remainder = builder.value(f"and i64 {address.operand}, {divisor - 1}")
        kept, broken = builder.label("kept"), builder.label("broken")
        builder.branch(builder.value(f"icmp eq i64 {remainder}, 0"), kept, broken, likely=True)
        builder.start(broken)
        watch = builder.value(f"load ptr, ptr {builder.value(f'getelementptr i8, ptr %launch, i64 {WORD * WATCH}')}")
        builder.effect(
            f"call void @fault(ptr {watch}, i64 {len(self.sites) - 1}, i64 {address.operand}, i64 0, i64 %program,"
            f" i64 {MISALIGNED})"
        )
        builder.jump(kept)
        builder.start(kept)

    def _real(self, address: str) -> str:
        """The address in this process that corresponds to the kernels' address `address`."""
        return self._builder.value(f"sub i64 {address}, %hidden")

    def _shadow_place(self, address: str) -> str:
        builder = self._builder
        return builder.value(f"inttoptr i64 {builder.value(f'add i64 {address}, %shadows')} to ptr")

    def _note_origin(self, llvm: str, shadow: str, address: str) -> None:
        """Remember where an uninitialised value was last read, for reports."""
        builder = self._builder
        undefined = builder.value(f"icmp ne {llvm} {shadow}, 0")
        before = builder.value("load i64, ptr %origin")
        origin = builder.value(f"select i1 {undefined}, i64 {address}, i64 {before}")
        builder.effect(f"store i64 {origin}, ptr %origin")

    def _guarded(
        self,
        site: int,
        pointer: Value,
        mask: Value | None,
        index: Index,
        access: Callable[[str], list[str]],
        llvm: str,
        fallback: list[str],
        *,
        owned: bool = False,
    ) -> list[str]:
        """The operands (`llvm`) of `access(address)` if the mask and the check allow it, else those of `fallback`.

        Of a store where warps are apart, only lanes that this warp owns are accessed, unless they are known to be
        `owned`.
        """
        builder = self._builder
        done = builder.label("accessed")
        number = self._number(pointer, index)
        incoming: list[tuple[list[str], str]] = []
        if self._apart and self.sites[site].is_store and not owned:
            place = builder.value(f"getelementptr i8, ptr @owners.{site}, i64 {number}")
            owner = builder.value(f"zext i8 {builder.value(f'load i8, ptr {place}')} to i64")
            own = builder.label("owned")
            builder.branch(builder.value(f"icmp eq i64 {owner}, %warp"), own, done)
            incoming.append((fallback, builder.block))
            builder.start(own)
        if mask is not None:
            if shadow := builder.shadow(mask, index):
                report_undefined(builder, site, mask.element, shadow, number, UNDEFINED_BRANCH)
            allowed = builder.label("unmasked")
            builder.branch(builder.lane(mask, index), allowed, done)
            incoming.append((fallback, builder.block))
            builder.start(allowed)
        with builder.scope():
            address = builder.lane(pointer, index)
            if shadow := builder.shadow(pointer, index):
                report_undefined(builder, site, pointer.element, shadow, number, UNDEFINED_ADDRESS)
            if self._checks:
                incoming.append((fallback, self._check(site, pointer, address, index, done)))
            result = access(address)
            incoming.append((result, builder.block))
        if len(incoming) == 1:
            return result
        builder.jump(done)
        builder.start(done)
        return [
            builder.phi(llvm, [(operands[place], label) for operands, label in incoming])
            for place in range(len(fallback))
        ]

    def _number(self, pointer: Value, index: Index) -> str:
        """The lane's number, an i64 operand."""
        return self._builder.linear(pointer.shape, index) if isinstance(pointer, Lanes) else "0"

    def _check(self, site: int, pointer: Value, address: str, index: Index, refused: str) -> str:
        """Continue if the access may happen, else jump to `refused`; returns the label of the block that continues."""
        builder, width = self._builder, self.sites[site].width
        cache = builder.value(f"getelementptr i8, ptr %spans, i64 {2 * WORD * site}")
        first = builder.value(f"load i64, ptr {cache}")
        room = builder.value(f"load i64, ptr {builder.value(f'getelementptr i8, ptr {cache}, i64 {WORD}')}")
        distance = builder.value(f"sub i64 {address}, {first}")
        hit = builder.value(f"icmp ult i64 {distance}, {room}")
        if width > 1:
            aligned = builder.value(f"icmp eq i64 {builder.value(f'and i64 {address}, {width - 1}')}, 0")
            hit = builder.value(f"and i1 {hit}, {aligned}")
        legal, search = builder.label("legal"), builder.label("search")
        builder.branch(hit, legal, search, likely=True)
        builder.start(search)
        with builder.scope():
            number = self._number(pointer, index)
            found = builder.value(
                f"call i1 @check(ptr %launch, i64 {address}, i64 {width}, i64 {site}, i64 {number},"
                f" i64 %program, i1 {int(self.sites[site].is_store)}, ptr {cache})"
            )
            builder.branch(found, legal, refused, likely=True)
        builder.start(legal)
        return search


def _parts(operation: Operation, operands: list[Value]) -> tuple[Value, Value | None, Value | None]:
    if not 1 <= len(operands) <= 3:
        raise ExecutorCannot(f"the native executor does not know {operation.name} of {len(operands)} operands")
    padded = [*operands, None, None]
    assert operands[0] is not None
    return operands[0], padded[1], padded[2]


def _pointee(pointer: Value) -> Element:
    if not isinstance(pointer.element, Pointer):
        raise ExecutorCannot("the native executor loads and stores only through pointers")
    return pointer.element.element

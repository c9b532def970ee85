"""The emitter turns a parsed kernel into LLVM IR: one function that runs one program.

Operations on values are here; control flow is in control, loads and stores in accesses, and the code that all kernels
share (the loop over programs, the search for a span) in runtime_ir.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.kernels.executors.base import ExecutorCannot
from harness.kernels.executors.native import arithmetic, interleaving_ir, runtime_ir
from harness.kernels.executors.native.abi import (
    ARGUMENTS,
    GRID,
    HIDDEN,
    LINES,
    ORIGIN,
    SHADOWS,
    SPAN_CACHE,
    WARP,
    WATCH,
    WORD,
)
from harness.kernels.executors.native.accesses import AccessSite, AccessWriter
from harness.kernels.executors.native.builder import literal
from harness.kernels.executors.native.control import ControlWriter, Environment
from harness.kernels.executors.native.forms import BINARY, CASTS
from harness.kernels.executors.native.ir import Function, Operation, used_names
from harness.kernels.executors.native.lanes import Index, LaneBuilder, Lanes, Scalar, Value
from harness.kernels.executors.native.recognition import recognised
from harness.kernels.executors.native.source_lines import SourceLine
from harness.kernels.executors.native.types import (
    Element,
    Integer,
    Tensor,
    element_of,
    shape_of,
    stored_llvm,
)


@dataclass(frozen=True)
class EmitOptions:
    """What is compiled into a variant: access checks, a byte set for each block that runs, a record of accesses,
    shadows that follow undefined bytes, programs that yield to each other."""

    checks: bool
    lines: bool
    record: bool = False
    undefined: bool = False
    interleave: bool = False
    warps: int = 0
    """Number of warps of a program that are interleaved too; 0 if a program's warps run in lockstep."""


@dataclass(frozen=True)
class Emitted:
    """LLVM IR, and what its numbers mean: access sites by number, and the kernel lines of each recorded block."""

    llvm: str
    sites: tuple[AccessSite, ...]
    blocks: tuple[tuple[SourceLine, ...], ...]


def emit(
    function: Function, options: EmitOptions, owners: Sequence[bytes] | None = None, phases: Sequence[int] = ()
) -> Emitted:
    """LLVM IR for the kernel. Raises ExecutorCannot, naming operation and line, for unsupported operations.

    Where warps are interleaved, `owners` gives the warp of each lane of each access site, `phases` the number of
    compiler barriers before it. They are known after emitting once without them; the code of that first pass is not
    used.
    """
    return _Emitter(function, options, owners, phases).emit()


class _Emitter:
    def __init__(
        self, function: Function, options: EmitOptions, owners: Sequence[bytes] | None, phases: Sequence[int]
    ) -> None:
        self._function = function
        self._owners = owners
        self._phases = phases
        self._passed_phase = 0
        self._options = options
        self._apart = options.warps > 1
        self._builder = LaneBuilder(tracking=options.undefined)
        self._epoch = self._builder.slot("i64") if options.record else ""
        names = used_names(function.body)
        self._accesses = AccessWriter(
            self._builder,
            checks=options.checks,
            epoch=self._passed_barriers if options.record else None,
            is_used=names.__contains__,
            apart=self._apart,
        )
        self._blocks: list[tuple[SourceLine, ...]] = []

    def emit(self) -> Emitted:
        builder, options = self._builder, self._options
        if options.interleave:
            builder.verbatim(interleaving_ir.BEGIN)
        for name, word in (("%spans", SPAN_CACHE), ("%lines", LINES)):
            place = builder.value(f"getelementptr i8, ptr %launch, i64 {WORD * word}")
            builder.effect(f"{name} = load ptr, ptr {place}")
        watch = builder.value(f"load ptr, ptr {builder.value(f'getelementptr i8, ptr %launch, i64 {WORD * WATCH}')}")
        builder.effect(f"%origin = getelementptr i8, ptr {watch}, i64 {WORD * ORIGIN}")
        if options.record and self._apart:
            builder.effect(f"%recording.warp = getelementptr i8, ptr {watch}, i64 {WORD * WARP}")
        for name, word in (("%hidden", HIDDEN), ("%shadows", SHADOWS)):
            place = builder.value(f"getelementptr i8, ptr {watch}, i64 {WORD * word}")
            builder.effect(f"{name} = load i64, ptr {place}")
        if self._epoch:
            builder.effect(f"store i64 0, ptr {self._epoch}")
        values: Environment = {}
        for number, argument in enumerate(self._function.arguments):
            element = element_of(argument.type)
            place = builder.value(f"getelementptr i8, ptr %launch, i64 {WORD * (ARGUMENTS + number)}")
            operand = builder.value(f"load {stored_llvm(element)}, ptr {place}")
            values[argument.name] = Scalar(element, builder.from_stored(element, operand))
        control = ControlWriter(builder, self._operation, self._enter, self._decide, self._await_phase)
        control.function(self._function.body, values)
        if self._apart:
            builder.effect("call void @leave(ptr %gate, i64 %warp)")
        builder.verbatim(interleaving_ir.FINISH if options.interleave else "  ret void")
        signature = "define internal void @program(ptr %launch, i32 %x, i32 %y, i32 %z, i64 %program)"
        if options.interleave:
            parameters = "(ptr %launch, i32 %x, i32 %y, i32 %z, i64 %program, i64 %warp, ptr %gate)"
            signature = f"define internal ptr @program{parameters} presplitcoroutine"
        tables = _owner_tables(self._owners or ())
        llvm = runtime_ir.module(
            "\n".join([builder.text(signature), *tables]),
            checks=options.checks,
            record=options.record,
            undefined=options.undefined,
            warps=max(1, options.warps) if options.interleave else None,
        )
        return Emitted(llvm, tuple(self._accesses.sites), tuple(self._blocks))

    def _decide(self, operation: Operation, values: list[Value]) -> None:
        """Before a branch: its direction must not depend on an undefined value."""
        if any(self._builder.shadow(value, ()) for value in values):
            self._accesses.branch(operation, values)

    def _enter(self, operations: tuple[Operation, ...]) -> None:
        """Record that a block runs, if any line belongs to it."""
        # Constants are hoisted far from their lines, and all returns share one block.
        own = dict.fromkeys(
            operation.line
            for operation in operations
            if operation.line is not None and operation.name not in ("arith.constant", "tt.return")
        )
        if not own or not self._options.lines:
            return
        builder = self._builder
        place = builder.value(f"getelementptr i8, ptr %lines, i64 {len(self._blocks)}")
        builder.effect(f"store i8 1, ptr {place}")
        self._blocks.append(tuple(own))

    def _operation(self, operation: Operation, values: Environment) -> None:
        """Emit an operation that is not control flow; its result is added to `values`."""
        operands = [values[name] for name in operation.operands]
        try:
            result = self._result(operation, operands)
        except ExecutorCannot as error:
            line = operation.line
            place = f"kernel line {line.file}:{line.line}, in {line.function}" if line else "kernel line unknown"
            raise ExecutorCannot(f"{error} ({operation.name}, {place})") from error
        if result is not None:
            values[operation.results[0]] = recognised(self._builder, operation, operands, result)

    def _result(self, operation: Operation, operands: list[Value]) -> Value | None:
        name = operation.name
        dialect, _, kind = name.partition(".")
        if dialect == "arith" and kind in BINARY:
            type_ = operation.types[0]
            bits = arithmetic.integer_bits(element_of(type_), name)
            shadow = self._bitwise_shadow(kind, element_of(type_), operands) if kind in ("andi", "ori") else None
            return self._builder.elementwise(
                type_, lambda a, b: arithmetic.binary(self._builder, kind, bits, a, b), *operands, shadow=shadow
            )
        if dialect == "arith" and kind in CASTS:
            source, target = (element_of(type_) for type_ in operation.types)
            return self._builder.elementwise(
                operation.types[1],
                lambda a: arithmetic.cast(self._builder, kind, source, target, a),
                *operands,
            )
        if self._options.interleave and name in ("tt.load", "tt.store", "tt.atomic_rmw"):
            self._yield()
            self._name_warp()
        if name == "tt.store":
            self._accesses.store(operation, operands)
            return None
        if name == "tt.atomic_rmw":
            return self._atomic(operation, operands)
        if name == "barrier":
            # Every lane finishes an operation before the next one starts: only independent warps have to wait.
            if self._apart:
                self._await_warps()
            if self._epoch:
                following = self._builder.value(f"add i64 {self._passed_barriers()}, 1")
                self._builder.effect(f"store i64 {following}, ptr {self._epoch}")
            return None
        write = _WRITERS.get(name)
        if write is None:
            raise ExecutorCannot(f"the native executor does not know {name}")
        return write(self, operation, operands)

    def _bitwise_shadow(self, kind: str, element: Element, operands: list[Value]) -> Callable[[Index], str]:
        """A bit that one operand decides is defined for any other operand: bits that a mask rules out do not count."""
        builder, llvm = self._builder, stored_llvm(element)

        def shadow(index: Index) -> str:
            shadows = [builder.shadow(operand, index) or "0" for operand in operands]
            undecided = builder.value(f"or {llvm} {shadows[0]}, {shadows[1]}")
            for operand, own in zip(operands, shadows, strict=True):
                lane = builder.lane(operand, index)
                if element == Integer(1):
                    lane = builder.value(f"sext i1 {lane} to i8")
                if kind == "ori":
                    lane = builder.value(f"xor {llvm} {lane}, -1")
                open_ = builder.value(f"or {llvm} {lane}, {own}")
                undecided = builder.value(f"and {llvm} {undecided}, {open_}")
            return undecided

        return shadow

    def _name_warp(self, warp: str = "%warp") -> None:
        """Record the warp whose access comes next, where that is needed."""
        if self._options.record and self._apart:
            self._builder.effect(f"store i64 {warp}, ptr %recording.warp")

    def _yield(self) -> None:
        """Let another program run, as the schedule decides."""
        builder = self._builder
        resumed = builder.label("resumed")
        way = builder.value("call i8 @llvm.coro.suspend(token none, i1 false)")
        builder.effect(f"switch i8 {way}, label %coro.suspend [i8 0, label %{resumed} i8 1, label %coro.suspend]")
        builder.start(resumed)

    def _atomic(self, operation: Operation, operands: list[Value]) -> Value:
        """Where warps are independent, one of them performs the access and passes the old value to the others.

        It is the first one that has not ended, so that programs whose warps disagree still end: their loops wait for
        what an atomic access returns. Recorded is the first warp, which owns all accesses to one number.
        """
        if not self._apart:
            return self._accesses.atomic(operation, operands)
        builder = self._builder
        element = element_of(operation.types[0])
        llvm = stored_llvm(element)
        places = [
            builder.value(f"getelementptr i64, ptr %gate, i64 {word}")
            for word in (interleaving_ir.GATE_VALUE, interleaving_ir.GATE_SHADOW)
        ]
        self._await_warps()
        mine, after = builder.label("mine"), builder.label("after")
        builder.branch(builder.value("call i1 @leads(ptr %gate, i64 %warp)"), mine, after)
        builder.start(mine)
        self._name_warp("0")
        before = self._accesses.atomic(operation, operands)
        builder.effect(f"store {llvm} {builder.lane(before, ())}, ptr {places[0]}")
        builder.effect(f"store {llvm} {builder.shadow(before, ()) or '0'}, ptr {places[1]}")
        builder.jump(after)
        builder.start(after)
        self._await_warps()
        operand = builder.value(f"load {llvm}, ptr {places[0]}")
        return Scalar(element, operand, builder.value(f"load {llvm}, ptr {places[1]}") if builder.tracking else "")

    def _await_phase(self) -> None:
        """Where warps are independent: wait as at a barrier if the compiler has one between the accesses around it."""
        if not self._apart:
            return
        following = self._phases[len(self._accesses.sites) :]
        phase = next((phase for phase in following if phase >= 0), self._passed_phase)
        if phase > self._passed_phase:
            self._passed_phase = phase
            self._await_warps()

    def _await_warps(self) -> None:
        """Yield until every warp of the program has arrived at a barrier too, or has ended."""
        builder = self._builder
        phase = builder.value("call i64 @arrive(ptr %gate)")
        look, wait, passed = builder.label("look"), builder.label("wait"), builder.label("passed")
        builder.jump(look)
        builder.start(look)
        now = builder.value("load i64, ptr %gate")
        builder.branch(builder.value(f"icmp ne i64 {now}, {phase}"), passed, wait)
        builder.start(wait)
        self._yield()
        builder.jump(look)
        builder.start(passed)

    def _passed_barriers(self) -> str:
        return self._builder.value(f"load i64, ptr {self._epoch}")

    def constant(self, operation: Operation, _: list[Value]) -> Value:
        operand, type_ = str(operation.attributes["value"]), operation.types[0]
        if isinstance(type_, Tensor):
            return Lanes(type_.shape, type_.element, lambda _: operand)
        return Scalar(type_, operand)

    def compare(self, operation: Operation, operands: list[Value]) -> Value:
        type_, predicate = operation.types[0], operation.attributes["predicate"]
        llvm = f"i{arithmetic.integer_bits(element_of(type_), operation.name)}"
        result = Tensor(type_.shape, Integer(1)) if isinstance(type_, Tensor) else Integer(1)
        return self._builder.elementwise(
            result, lambda a, b: self._builder.value(f"icmp {predicate} {llvm} {a}, {b}"), *operands
        )

    def select(self, operation: Operation, operands: list[Value]) -> Value:
        type_ = operation.types[-1]
        element, builder = element_of(type_), self._builder
        condition, one, other = operands

        def compute(index: Index) -> str:
            c, a, b = (builder.lane(operand, index) for operand in operands)
            return builder.value(f"select i1 {c}, {element.llvm} {a}, {element.llvm} {b}")

        def shadow(index: Index) -> str:
            """The operand that is not chosen does not matter."""
            llvm = stored_llvm(element)
            a, b = (builder.shadow(operand, index) or "0" for operand in (one, other))
            chosen = builder.value(f"select i1 {builder.lane(condition, index)}, {llvm} {a}, {llvm} {b}")
            undecided = builder.joined(element, [condition], index)
            return builder.value(f"or {llvm} {chosen}, {undecided}") if undecided else chosen

        if isinstance(type_, Tensor):
            return builder.lazy(type_, compute, *operands, shadow=shadow)
        return Scalar(element, compute(()), shadow(()) if builder.tracks(operands) else "")

    def absolute(self, operation: Operation, operands: list[Value]) -> Value:
        type_ = operation.types[0]
        bits = arithmetic.integer_bits(element_of(type_), operation.name)
        return self._builder.elementwise(type_, lambda a: arithmetic.absolute(self._builder, bits, a), *operands)

    def program_id(self, operation: Operation, _: list[Value]) -> Value:
        return Scalar(Integer(32), ("%x", "%y", "%z")[int(operation.attributes["axis"])])

    def num_programs(self, operation: Operation, _: list[Value]) -> Value:
        word = GRID + int(operation.attributes["axis"])
        place = self._builder.value(f"getelementptr i8, ptr %launch, i64 {WORD * word}")
        return Scalar(Integer(32), self._builder.value(f"load i32, ptr {place}"))

    def add_pointer(self, operation: Operation, operands: list[Value]) -> Value:
        type_, offset_type = operation.types
        step = arithmetic.pointer_step(element_of(type_))
        bits = arithmetic.integer_bits(element_of(offset_type), operation.name)
        return self._builder.elementwise(
            type_, lambda a, b: arithmetic.add_pointer(self._builder, step, bits, a, b), *operands
        )

    def make_range(self, operation: Operation, _: list[Value]) -> Value:
        start = int(operation.attributes["start"])

        def compute(index: Index) -> str:
            (position,) = index
            known = literal(position)
            if known is not None:
                return str(known + start)
            narrow = self._builder.value(f"trunc i64 {position} to i32")
            return self._builder.value(f"add i32 {narrow}, {start}") if start else narrow

        return self._builder.lazy(operation.types[0], compute)

    def same_bits(self, operation: Operation, operands: list[Value]) -> Value:
        """Casts between pointers and integers of 64 bits, or between types of one width."""
        source, target = (element_of(type_) for type_ in operation.types)
        if source.llvm != target.llvm:
            raise ExecutorCannot(f"the native executor does not cast {source.llvm} to {target.llvm} here")
        divisor = int(operation.attributes.get("divisibility", 1))
        if divisor > 1 and self._options.checks and isinstance(operands[0], Scalar):
            self._accesses.promise(operation, operands[0], divisor)
        return self._builder.elementwise(operation.types[1], lambda a: a, *operands)

    def splat(self, operation: Operation, operands: list[Value]) -> Value:
        return self._rearranged(operation, operands, lambda _: ())

    def broadcast(self, operation: Operation, operands: list[Value]) -> Value:
        shape = shape_of(operation.types[0]) or ()
        return self._rearranged(
            operation,
            operands,
            lambda index: tuple("0" if size == 1 else position for size, position in zip(shape, index, strict=True)),
        )

    def expand_dims(self, operation: Operation, operands: list[Value]) -> Value:
        axis = int(operation.attributes["axis"])
        return self._rearranged(operation, operands, lambda index: index[:axis] + index[axis + 1 :])

    def transpose(self, operation: Operation, operands: list[Value]) -> Value:
        order = [int(axis) for axis in str(operation.attributes["order"]).split(",")]
        return self._rearranged(
            operation, operands, lambda index: tuple(index[order.index(axis)] for axis in range(len(order)))
        )

    def reshape(self, operation: Operation, operands: list[Value]) -> Value:
        before, after = (shape_of(type_) or () for type_ in operation.types)
        builder = self._builder
        return self._rearranged(
            operation,
            operands,
            lambda index: builder.from_linear(before, builder.linear(after, index)),
        )

    def load(self, operation: Operation, operands: list[Value]) -> Value:
        return self._accesses.load(operation, operands)

    def _rearranged(self, operation: Operation, operands: list[Value], source: Callable[[Index], Index]) -> Value:
        """The tensor whose lane at `index` is the operand's at `source(index)`."""
        (operand,) = operands
        builder = self._builder
        return builder.lazy(
            operation.types[1],
            lambda index: builder.lane(operand, source(index)),
            operand,
            shadow=lambda index: builder.shadow(operand, source(index)) or "0",
        )


def _owner_tables(owners: Sequence[bytes]) -> list[str]:
    """Constants with the warp that owns each lane of each site, and one with their addresses."""
    tables = []
    for site, warps in enumerate(owners):
        numbers = ", ".join(f"i8 {warp}" for warp in warps)
        tables.append(f"@owners.{site} = internal constant [{len(warps)} x i8] [{numbers}]")
    places = ", ".join(f"ptr @owners.{site}" for site in range(len(owners)))
    tables.append(f"@owner.tables = internal constant [{len(owners)} x ptr] [{places}]")
    return tables


_WRITERS: dict[str, Callable[[_Emitter, Operation, list[Value]], Value]] = {
    "arith.constant": _Emitter.constant,
    "arith.cmpi": _Emitter.compare,
    "arith.select": _Emitter.select,
    "math.absi": _Emitter.absolute,
    "tt.get_program_id": _Emitter.program_id,
    "tt.get_num_programs": _Emitter.num_programs,
    "tt.addptr": _Emitter.add_pointer,
    "tt.make_range": _Emitter.make_range,
    "tt.int_to_ptr": _Emitter.same_bits,
    "tt.ptr_to_int": _Emitter.same_bits,
    "tt.bitcast": _Emitter.same_bits,
    "tt.splat": _Emitter.splat,
    "tt.broadcast": _Emitter.broadcast,
    "tt.expand_dims": _Emitter.expand_dims,
    "tt.trans": _Emitter.transpose,
    "tt.reshape": _Emitter.reshape,
    "tt.load": _Emitter.load,
}

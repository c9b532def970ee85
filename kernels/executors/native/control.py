"""Control flow of a kernel: blocks with jumps (early returns), and the structured if, for and while inside them.

Scalars that cross control flow become phi nodes. Tensors that cross it are kept in memory: a buffer for each result of
an if, each carried value of a loop, each tensor argument of a block. MLIR reuses SSA names in sibling regions, so
every region has its own copy of the names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.kernels.executors.base import ExecutorCannot
from harness.kernels.executors.native.builder import phi_pairs
from harness.kernels.executors.native.ir import Argument, Block, Operation, Region, Successor
from harness.kernels.executors.native.lanes import LaneBuffer, LaneBuilder, Lanes, Scalar, Value
from harness.kernels.executors.native.types import Tensor, Type, stored_llvm

Environment = dict[str, Value]
"""Values by SSA name."""

_EXIT = "exit"
_ENDS = frozenset(
    ["tt.return", "cf.br", "cf.cond_br", "scf.yield", "scf.condition", "tt.reduce.return", "tt.scan.return"]
)
"""The last operation of a block."""


class ControlWriter:
    """Emits regions. `operation` emits what is not control flow, `enter` gets the operations of each block, `decide`
    the values that a branch depends on."""

    def __init__(
        self,
        builder: LaneBuilder,
        operation: Callable[[Operation, Environment], None],
        enter: Callable[[tuple[Operation, ...]], None],
        decide: Callable[[Operation, list[Value]], None],
        before: Callable[[], None],
    ) -> None:
        """`before` is called before each operation of the kernel's body, outside loops and branches."""
        self.decide = decide
        self._before = before
        self._depth = 0
        self._builder = builder
        self._operation = operation
        self._enter = enter
        self._nested = {
            "scf.if": self._if,
            "scf.for": self._for,
            "scf.while": self._while,
            "tt.reduce": self._reduce,
            "tt.scan": self._scan,
        }

    def function(self, body: Region, values: Environment) -> None:
        """Emit a kernel's blocks; then begin the common exit block."""
        _Blocks(self, self._builder, body, values).write()
        self._builder.start(_EXIT)

    def block(self, block: Block, values: Environment) -> Operation:
        """Emit all operations but the last, which ends the block."""
        if not block.operations:
            return Operation("scf.yield", None)
        self._enter(block.operations)
        for operation in block.operations[:-1]:
            self._write(operation, values)
        last = block.operations[-1]
        if last.name in _ENDS:
            return last
        # A region without results is printed without its yield.
        self._write(last, values)
        return Operation("scf.yield", None)

    def _write(self, operation: Operation, values: Environment) -> None:
        if self._depth == 0:
            self._before()
        write = self._nested.get(operation.name, self._operation)
        write(operation, values)

    def _region(self, region: Region, values: Environment, end: str) -> list[Value]:
        """Emit a structured region that ends with `end`; returns the values that it yields."""
        scope = dict(values)
        if len(region.blocks) != 1:
            raise ExecutorCannot("the native executor has no jumps inside structured control flow")
        self._depth += 1
        last = self.block(region.blocks[0], scope)
        self._depth -= 1
        if last.name != end:
            raise ExecutorCannot(f"the native executor expects {end} where the kernel has {last.name}")
        return [scope[name] for name in last.operands]

    def _if(self, operation: Operation, values: Environment) -> None:
        builder = self._builder
        self.decide(operation, [values[operation.operands[0]]])
        condition = builder.lane(values[operation.operands[0]], ())
        labels = [builder.label("then"), builder.label("else")]
        after = builder.label("endif")
        buffers = {
            number: builder.buffer(type_) for number, type_ in enumerate(operation.types) if isinstance(type_, Tensor)
        }
        incoming = [_Incoming(builder, type_) for type_ in operation.types]
        regions = operation.regions
        builder.branch(condition, labels[0], labels[1] if len(regions) > 1 else after)
        for label, region in zip(labels, regions, strict=False):
            builder.start(label)
            yielded = self._region(region, values, "scf.yield")
            for number, value in enumerate(yielded):
                if number in buffers:
                    builder.keep(buffers[number], value)
            for number, value in enumerate(yielded):
                if isinstance(value, Scalar):
                    incoming[number].add(value)
            builder.jump(after)
        builder.start(after)
        for number, (name, type_) in enumerate(zip(operation.results, operation.types, strict=True)):
            if isinstance(type_, Tensor):
                values[name] = builder.kept(buffers[number])
            else:
                values[name] = incoming[number].joined()

    def _for(self, operation: Operation, values: Environment) -> None:
        builder = self._builder
        self.decide(operation, [values[name] for name in operation.operands[:3]])
        start, stop, step = (builder.lane(values[name], ()) for name in operation.operands[:3])
        induction, *carried = operation.arguments
        assert not isinstance(induction.type, Tensor)
        llvm = induction.type.llvm
        loop = _Loop(builder, carried, [values[name] for name in operation.operands[3:]])
        counter = Carried(builder, llvm, start)
        inside, after = builder.label("for_body"), builder.label("for_end")
        loop.start([counter])
        less = "ult" if operation.attributes["unsigned"] else "slt"
        builder.branch(builder.value(f"icmp {less} {llvm} {counter.operand}, {stop}"), inside, after)
        builder.start(inside)
        scope = {**values, **loop.values, induction.name: Scalar(induction.type, counter.operand)}
        yielded = self._region(operation.regions[0], scope, "scf.yield")
        following = builder.value(f"add {llvm} {counter.operand}, {step}")
        loop.repeat(yielded, [(counter, following)])
        builder.start(after)
        results = [loop.values[argument.name] for argument in carried]
        values.update(zip(operation.results, results, strict=True))

    def _while(self, operation: Operation, values: Environment) -> None:
        builder = self._builder
        loop = _Loop(builder, operation.arguments, [values[name] for name in operation.operands])
        inside, after = builder.label("while_body"), builder.label("while_end")
        loop.start([])
        condition, *passed = self._region(operation.regions[0], {**values, **loop.values}, "scf.condition")
        self.decide(operation, [condition])
        builder.branch(builder.lane(condition, ()), inside, after)
        builder.start(inside)
        names = [argument.name for argument in operation.regions[1].blocks[0].arguments]
        scope = {**values, **dict(zip(names, passed, strict=True))}
        loop.repeat(self._region(operation.regions[1], scope, "scf.yield"), [])
        builder.start(after)
        values.update(zip(operation.results, passed, strict=True))

    def _reduce(self, operation: Operation, values: Environment) -> None:
        """All lanes of a tensor combined, from the first to the last."""
        lanes = self._vector(operation, values)
        total = self._builder.buffer(Tensor((1,), lanes.element))
        self._fold(operation, values, lanes, total, None)
        kept = self._builder.kept(total)
        operand, shadow = self._builder.lane(kept, ("0",)), self._builder.shadow(kept, ("0",))
        values[operation.results[0]] = Scalar(lanes.element, operand, shadow)

    def _scan(self, operation: Operation, values: Environment) -> None:
        """At each lane, all lanes up to it combined; starting at the last lane if reversed."""
        lanes = self._vector(operation, values)
        builder = self._builder
        total = builder.buffer(Tensor((1,), lanes.element))
        kept = builder.buffer(Tensor(lanes.shape, lanes.element))
        self._fold(operation, values, lanes, total, kept)
        values[operation.results[0]] = builder.kept(kept)

    def _vector(self, operation: Operation, values: Environment) -> Lanes:
        lanes = values[operation.operands[0]]
        if not isinstance(lanes, Lanes) or len(lanes.shape) != 1:
            raise ExecutorCannot(f"the native executor supports {operation.name} of one dimension only")
        return lanes

    def _fold(
        self, operation: Operation, values: Environment, lanes: Lanes, total: LaneBuffer, each: LaneBuffer | None
    ) -> None:
        """Combine lanes one after another in `total`; store the value at each lane in `each`, if given."""
        builder = self._builder
        (size,) = lanes.shape
        last = size - 1
        held = builder.kept(total)
        one, other = (argument.name for argument in operation.regions[0].blocks[0].arguments)

        def place(number: str) -> str:
            return builder.value(f"sub i64 {last}, {number}") if operation.attributes["reverse"] else number

        def keep(index: str, value: Value) -> None:
            operand, shadow = builder.lane(value, ()), builder.shadow(value, ())
            builder.put(total, ("0",), operand, shadow)
            if each is not None:
                builder.put(each, (index,), operand, shadow)

        def lane(index: str) -> Scalar:
            return Scalar(lanes.element, builder.lane(lanes, (index,)), builder.shadow(lanes, (index,)))

        def step(number: str) -> None:
            index = place(builder.value(f"add i64 {number}, 1"))
            so_far = Scalar(lanes.element, builder.lane(held, ("0",)), builder.shadow(held, ("0",)))
            scope = {**values, one: so_far, other: lane(index)}
            (combined,) = self._region(operation.regions[0], scope, f"{operation.name}.return")
            keep(index, combined)

        with builder.scope():
            first = place("0")
            keep(first, lane(first))
        builder.loop(str(last), step)


class _Incoming:
    """A scalar that depends on the predecessor block."""

    def __init__(self, builder: LaneBuilder, type_: Type) -> None:
        self._builder = builder
        self._type = type_
        self._operands: list[tuple[str, str]] = []
        self._shadows: list[tuple[str, str]] = []

    def add(self, value: Value) -> None:
        """Its value if control comes from the current block."""
        builder = self._builder
        self._operands.append((builder.lane(value, ()), builder.block))
        self._shadows.append((builder.shadow(value, ()) or "0", builder.block))

    def joined(self) -> Scalar:
        """Emit it here."""
        type_ = self._type
        assert not isinstance(type_, Tensor)
        shadow = self._builder.phi(stored_llvm(type_), self._shadows) if self._builder.tracking else ""
        return Scalar(type_, self._builder.phi(type_.llvm, self._operands), shadow)

    def reserve(self) -> Scalar:
        """Reserve its place here, for `fill`."""
        type_, builder = self._type, self._builder
        assert not isinstance(type_, Tensor)
        self._holes = [builder.hole()]
        value = Scalar(type_, builder.name())
        if builder.tracking:
            self._holes.append(builder.hole())
            value = Scalar(type_, value.operand, builder.name())
        self._reserved = value
        return value

    def fill(self) -> None:
        """Emit what `reserve` left room for: all operands are known."""
        value = self._reserved
        pairs = (
            (value.operand, value.element.llvm, self._operands),
            (value.shadow, stored_llvm(value.element), self._shadows),
        )
        for hole, (name, llvm, incoming) in zip(self._holes, pairs, strict=False):
            self._builder.fill(hole, f"{name} = phi {llvm} {phi_pairs(incoming)}")


class Carried:
    """A number that a loop's header receives: first from before the loop, then from the previous iteration."""

    def __init__(self, builder: LaneBuilder, llvm: str, initial: str) -> None:
        self.operand = builder.name()
        self._builder = builder
        self._llvm = llvm
        self._incoming = [(initial, builder.block)]
        self._hole = -1

    def start(self) -> None:
        self._hole = self._builder.hole()

    def repeat(self, operand: str) -> None:
        self._incoming.append((operand, self._builder.block))

    def finish(self) -> None:
        self._builder.fill(self._hole, f"{self.operand} = phi {self._llvm} {phi_pairs(self._incoming)}")


class _Loop:
    """The carried values of one loop. `values` are those values, inside the loop and after it."""

    def __init__(self, builder: LaneBuilder, arguments: Sequence[Argument], initial: list[Value]) -> None:
        self._builder = builder
        self._header = builder.label("loop")
        self._names = [argument.name for argument in arguments]
        self._buffers: dict[str, LaneBuffer] = {}
        self._scalars: dict[str, _Incoming] = {}
        self.values: Environment = {}
        # Buffers first: filling one emits blocks, and scalars record the block that they come from.
        for argument, value in zip(arguments, initial, strict=True):
            if isinstance(argument.type, Tensor):
                buffer = builder.buffer(argument.type)
                builder.keep(buffer, value)
                self._buffers[argument.name] = buffer
                self.values[argument.name] = builder.kept(buffer)
        for argument, value in zip(arguments, initial, strict=True):
            if not isinstance(argument.type, Tensor):
                scalar = _Incoming(builder, argument.type)
                scalar.add(value)
                self._scalars[argument.name] = scalar

    def start(self, counters: list[Carried]) -> None:
        """Begin the header; `counters` are carried too."""
        self._builder.jump(self._header)
        self._builder.start(self._header)
        for counter in counters:
            counter.start()
        for name, scalar in self._scalars.items():
            self.values[name] = scalar.reserve()

    def repeat(self, yielded: list[Value], counters: list[tuple[Carried, str]]) -> None:
        """End an iteration that yields `yielded`."""
        pairs = list(zip(self._names, yielded, strict=True))
        move(self._builder, [(self._buffers[name], value) for name, value in pairs if name in self._buffers])
        for name, value in pairs:
            if name in self._scalars:
                self._scalars[name].add(value)
        for counter, operand in counters:
            counter.repeat(operand)
        self._builder.jump(self._header)
        for scalar in self._scalars.values():
            scalar.fill()
        for counter, _ in counters:
            counter.finish()


def move(builder: LaneBuilder, pairs: list[tuple[LaneBuffer, Value]]) -> None:
    """Fill the buffers, all at once: a value may read lanes of any of them."""
    copies = []
    for buffer, value in pairs:
        copy = builder.buffer(buffer.type)
        builder.keep(copy, value)
        copies.append((buffer, builder.kept(copy)))
    for buffer, kept in copies:
        builder.keep(buffer, kept)


class _Blocks:
    """The blocks of a function, connected by jumps."""

    def __init__(self, control: ControlWriter, builder: LaneBuilder, body: Region, values: Environment) -> None:
        self._control = control
        self._builder = builder
        self._values = values
        self._blocks = {block.label: block for block in body.blocks}
        self._entry = body.blocks[0].label
        self._labels = {label: builder.label("block") for label in self._blocks}
        self._buffers: dict[tuple[str, int], LaneBuffer] = {
            (block.label, number): builder.buffer(argument.type)
            for block in body.blocks
            for number, argument in enumerate(block.arguments)
            if isinstance(argument.type, Tensor)
        }
        self._incoming: dict[tuple[str, int], _Incoming] = {
            (block.label, number): _Incoming(builder, argument.type)
            for block in body.blocks
            for number, argument in enumerate(block.arguments)
            if not isinstance(argument.type, Tensor)
        }

    def write(self) -> None:
        builder = self._builder
        builder.jump(self._labels[self._entry])
        reserved: list[_Incoming] = []
        for label in self._order():
            block = self._blocks[label]
            builder.start(self._labels[label])
            for number, argument in enumerate(block.arguments):
                key = (label, number)
                if isinstance(argument.type, Tensor):
                    self._values[argument.name] = builder.kept(self._buffers[key])
                else:
                    reserved.append(self._incoming[key])
                    self._values[argument.name] = reserved[-1].reserve()
            self._leave(self._control.block(block, self._values))
        for scalar in reserved:
            scalar.fill()

    def _order(self) -> list[str]:
        """Reachable blocks, each after those that dominate it: reverse postorder."""
        order: list[str] = []
        seen: set[str] = set()

        def visit(label: str) -> None:
            if label in seen:
                return
            seen.add(label)
            operations = self._blocks[label].operations
            for successor in reversed(operations[-1].successors if operations else ()):
                visit(successor.label)
            order.append(label)

        visit(self._entry)
        return order[::-1]

    def _leave(self, last: Operation) -> None:
        builder = self._builder
        if last.name == "tt.return":
            if last.operands:
                raise ExecutorCannot("the native executor runs kernels, which return nothing")
            builder.jump(_EXIT)
        elif last.name == "cf.br":
            self._jump(last.successors[0])
        elif last.name == "cf.cond_br":
            self._control.decide(last, [self._values[last.operands[0]]])
            condition = builder.lane(self._values[last.operands[0]], ())
            # Each edge gets a separate block, for the arguments that it passes.
            edges = [builder.label("edge") for _ in last.successors]
            builder.branch(condition, *edges)
            for edge, successor in zip(edges, last.successors, strict=True):
                builder.start(edge)
                self._jump(successor)
        else:
            raise ExecutorCannot(f"the native executor does not know {last.name} at the end of a kernel's block")

    def _jump(self, successor: Successor) -> None:
        builder = self._builder
        passed = [(number, self._values[name]) for number, name in enumerate(successor.operands)]
        keys = {number: (successor.label, number) for number, _ in passed}
        move(
            builder,
            [(self._buffers[keys[n]], value) for n, value in passed if keys[n] in self._buffers],
        )
        for number, value in passed:
            if keys[number] in self._incoming:
                self._incoming[keys[number]].add(value)
        builder.jump(self._labels[successor.label])

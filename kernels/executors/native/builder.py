"""A builder emits the LLVM IR of one function as text: fresh names, blocks, phi nodes, stack slots, loops.

It emits text because llvmlite's binding layer parses text anyway, and because an emitter is debugged by reading it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Hashable, Iterator

from harness.kernels.executors.base import ExecutorCannot

STACK_LIMIT = 2 << 20
"""Maximum bytes of stack for one program: thread stacks are 8 MiB, and part of that is in use."""

_LITERAL = re.compile(r"-?\d+")


def literal(operand: str) -> int | None:
    """The value of an operand that is a constant, None if it is a name."""
    return int(operand) if _LITERAL.fullmatch(operand) else None


class Builder:
    """Emits blocks one after another. `block` is the label of the current one."""

    def __init__(self) -> None:
        self.block = "entry"
        self._lines: list[str] = []
        self._slots: list[str] = []
        self._fresh = 0
        self._stack = 0
        self._known: list[dict[Hashable, str]] = []

    def value(self, expression: str) -> str:
        """Emit `name = expression`; returns the fresh name."""
        name = self.name()
        self._lines.append(f"  {name} = {expression}")
        return name

    def effect(self, instruction: str) -> None:
        """Emit an instruction without a result."""
        self._lines.append(f"  {instruction}")

    def verbatim(self, text: str) -> None:
        """Emit lines unchanged."""
        self._lines.append(text)

    def name(self) -> str:
        """A fresh value name."""
        self._fresh += 1
        return f"%v{self._fresh}"

    def label(self, hint: str) -> str:
        """A fresh block label."""
        self._fresh += 1
        return f"{hint}{self._fresh}"

    def start(self, label: str) -> None:
        """Emit block `label` from now on."""
        self._lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        self.effect(f"br label %{label}")

    def branch(self, condition: str, taken: str, other: str, *, likely: bool = False) -> None:
        weights = ", !prof !0" if likely else ""
        self.effect(f"br i1 {condition}, label %{taken}, label %{other}{weights}")

    def hole(self) -> int:
        """Reserve a line for `fill`: phi nodes of loops name values that do not exist yet."""
        self._lines.append("")
        return len(self._lines) - 1

    def fill(self, hole: int, instruction: str) -> None:
        self._lines[hole] = f"  {instruction}"

    def phi(self, llvm: str, incoming: list[tuple[str, str]]) -> str:
        """A value that depends on the predecessor block: pairs of operand and label."""
        return self.value(f"phi {llvm} {phi_pairs(incoming)}")

    def slot(self, llvm: str, count: int = 1) -> str:
        """Stack memory for `count` values of the integer type `llvm`, for the whole function."""
        self._stack += count * max(1, int(llvm[1:]) // 8)
        if self._stack > STACK_LIMIT:
            raise ExecutorCannot(f"the native executor keeps tensors on the stack, at most {STACK_LIMIT} bytes")
        name = self.name()
        self._slots.append(f"  {name} = alloca [{count} x {llvm}], align 16")
        return name

    def loop(self, count: str, body: Callable[[str], None]) -> None:
        """Run `body(i)` for the i64 values 0 .. count - 1."""
        header, inside, after = self.label("loop"), self.label("body"), self.label("done")
        before = self.block
        index, following = self.name(), self.name()
        self.jump(header)
        self.start(header)
        hole = self.hole()
        self.branch(self.value(f"icmp ult i64 {index}, {count}"), inside, after)
        self.start(inside)
        with self.scope():
            body(index)
        self.effect(f"{following} = add i64 {index}, 1")
        self.fill(hole, f"{index} = phi i64 {phi_pairs([('0', before), (following, self.block)])}")
        self.jump(header)
        self.start(after)

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Forget at its end what was remembered inside it: outside it may not have been computed."""
        self._known.append({})
        try:
            yield
        finally:
            self._known.pop()

    def once(self, key: Hashable, compute: Callable[[], str]) -> str:
        """The operand for `key`, computed at most once in each scope and those inside it."""
        for scope in self._known:
            if key in scope:
                return scope[key]
        operand = compute()
        if self._known:
            self._known[-1][key] = operand
        return operand

    def text(self, signature: str) -> str:
        """The whole function: stack slots first, then everything emitted."""
        return "\n".join([f"{signature} {{", "entry:", *self._slots, *self._lines, "}", ""])


def phi_pairs(incoming: list[tuple[str, str]]) -> str:
    return ", ".join(f"[ {operand}, %{label} ]" for operand, label in incoming)

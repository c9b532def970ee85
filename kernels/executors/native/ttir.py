"""TTIR is Triton's intermediate representation, as text: the result of its front end. This is its parser.

It reads the text that Triton prints, line by line, and is strict: an unknown operation, attribute or type raises
ExecutorCannot with the kernel's source line, because a guess could make a wrong kernel look right. The text, unlike
libtriton's Python bindings, is complete. It is nearly the same in Triton 3.6 and 3.9; where it differs, both
spellings are read.
"""

from __future__ import annotations

import re

from harness.kernels.executors.base import ExecutorCannot
from harness.kernels.executors.native.forms import READERS
from harness.kernels.executors.native.ir import Argument, Block, Function, Operation, Region
from harness.kernels.executors.native.source_lines import LocationTable, SourceLine
from harness.kernels.executors.native.spelling import (
    IrLine,
    Unreadable,
    head,
    split_list,
    split_location,
    typed_arguments,
)
from harness.kernels.executors.native.types import parse_type

_RESULT = re.compile(r"(%[\w$.-]+)(?::(\d+))? = (.*)")
_BLOCK = re.compile(r"(\^bb\d+)(?:\((.*)\))?:")
_FUNCTION = re.compile(r"tt\.func (public|private) @([\w$.]+)\((.*?)\)(?: -> \S+)? attributes \{(.*)\} \{")


def parse(text: str) -> Function:
    """The one function of a TTIR module printed with locations.

    Raises ExecutorCannot for anything that is not understood, and for calls that were not inlined.
    """
    return _Parser(text).module()


class _Parser:
    def __init__(self, text: str) -> None:
        lines = [line.strip() for line in text.splitlines()]
        self._locations = LocationTable([line for line in lines if line.startswith("#")])
        self._lines = [split_location(line) for line in lines if line and not line.startswith(("#", "//"))]
        self._position = 0

    def module(self) -> Function:
        if self._take().text not in ("module {", "module attributes {} {"):
            self._position = 0
            raise self._cannot("a module header")
        functions = []
        while self._peek().text != "}":
            functions.append(self._function())
        if len(functions) != 1:
            raise ExecutorCannot(
                f"the native executor has no calls, and {functions[0].name} has functions that were not inlined"
            )
        return functions[0]

    def _function(self) -> Function:
        header = _FUNCTION.fullmatch(self._peek().text)
        if not header:
            raise self._cannot("a function")
        arguments = []
        for argument in split_list(header[3]):
            name, _, type_text = argument.partition(": ")
            arguments.append(Argument(name, parse_type(type_text.partition(" {")[0])))
        self._position += 1
        body = self._region()
        if self._take().text != "}":
            self._position -= 1
            raise self._cannot("the end of a function")
        return Function(header[2], tuple(arguments), body)

    def _region(self) -> Region:
        """Everything up to the line that starts with the closing brace, which is not consumed."""
        blocks: list[Block] = []
        label, arguments, operations = "^entry", tuple[Argument, ...](), list[Operation]()
        while not (text := self._peek().text).startswith("}"):
            header = _BLOCK.fullmatch(text)
            if header is None:
                operations.append(self._operation())
                continue
            self._position += 1
            if operations or blocks:
                blocks.append(Block(label, arguments, tuple(operations)))
            label, arguments, operations = header[1], typed_arguments(header[2] or ""), []
        blocks.append(Block(label, arguments, tuple(operations)))
        return Region(tuple(blocks))

    def _operation(self) -> Operation:
        start = self._position
        line = self._take()
        body, results = line.text, tuple[str, ...]()
        if match := _RESULT.fullmatch(body):
            base, count, body = match[1], int(match[2] or 0), match[3]
            results = tuple(f"{base}#{index}" for index in range(count)) if count else (base,)
        name, rest = head(body)
        reader = READERS.get(name)
        if reader is None:
            self._position = start
            raise self._cannot(f"the operation {name}")
        try:
            operation = reader(self, name, rest)
        except (Unreadable, ValueError, TypeError) as error:
            self._position = start
            raise self._cannot(f"this form of {name}") from error
        except ExecutorCannot as error:
            if "kernel line" in str(error):
                raise
            self._position = start
            raise ExecutorCannot(f"{error}{self._place()}") from error
        closing = self._lines[self._position - 1]
        source = self._locations.line(closing.location) if closing.location else None
        return Operation(
            operation.name,
            source,
            results,
            operation.operands,
            operation.types,
            operation.attributes,
            operation.arguments,
            operation.successors,
            operation.regions,
            self._locations.callers(closing.location) if closing.location else (),
        )

    def nested(self, closing: str | re.Pattern[str]) -> Region:
        """A region and its closing line, which must match."""
        region = self._region()
        text = self._take().text
        matches = text == closing if isinstance(closing, str) else closing.fullmatch(text)
        if not matches:
            raise Unreadable(text)
        return region

    def closed_by(self, text: str) -> bool:
        """Whether the line just read is `text`."""
        return self.closing() == text

    def closing(self) -> str:
        """The line just read."""
        return self._lines[self._position - 1].text

    def _peek(self) -> IrLine:
        if self._position >= len(self._lines):
            raise ExecutorCannot("the native executor got a TTIR text that ends too early")
        return self._lines[self._position]

    def _take(self) -> IrLine:
        line = self._peek()
        self._position += 1
        return line

    def _cannot(self, what: str) -> ExecutorCannot:
        text = self._lines[self._position].text
        return ExecutorCannot(f"the native executor does not know {what}{self._place()}: {text}")

    def _place(self) -> str:
        """The kernel line of the operation at the position: its own, or after an opening brace the next known one."""
        for line in self._lines[self._position :]:
            source = self._locations.line(line.location) if line.location else None
            if source is not None:
                return _place(source)
        return " (kernel line unknown)"


def _place(source: SourceLine) -> str:
    return f" (kernel line {source.file}:{source.line}, in {source.function})"

"""TTIR is Triton's intermediate representation, as text: what its front end makes of a kernel. This is its parser.

It reads the text that Triton prints, line by line, and is strict: an operation, attribute or type that it does not
know raises ExecutorCannot with the kernel's source line, because a guess could make a wrong kernel look right. The
text, unlike libtriton's Python bindings, says everything. It is nearly the same in Triton 3.6 and 3.9; both
spellings are read where it is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from harness.kernels.executors.base import ExecutorCannot
from harness.kernels.executors.native.constants import parse_constant
from harness.kernels.executors.native.ir import Argument, Block, Function, Operation, Region, Successor
from harness.kernels.executors.native.source_lines import LocationTable, SourceLine
from harness.kernels.executors.native.types import parse_type

BINARY = frozenset(
    [
        "addi",
        "subi",
        "muli",
        "divsi",
        "divui",
        "remsi",
        "remui",
        "andi",
        "ori",
        "xori",
        "shli",
        "shrsi",
        "shrui",
        "minsi",
        "maxsi",
        "minui",
        "maxui",
    ]
)
CASTS = frozenset(["extsi", "extui", "trunci", "index_cast", "bitcast"])
_RESHAPES = frozenset(["tt.splat", "tt.broadcast", "tt.int_to_ptr", "tt.ptr_to_int", "tt.bitcast", "tt.reshape"])
_PREDICATES = frozenset(["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"])

_NAME = r"%[\w$.-]+(?:#\d+)?"
_RESULT = re.compile(r"(%[\w$.-]+)(?::(\d+))? = (.*)")
_OPERATION = re.compile(r'"?([\w.]+)"?')
_BLOCK = re.compile(r"(\^bb\d+)(?:\((.*)\))?:")
_FUNCTION = re.compile(r"tt\.func (public|private) @([\w$.]+)\((.*?)\)(?: -> \S+)? attributes \{(.*)\} \{")
_SUCCESSOR = re.compile(r"(\^bb\d+)(?:\((.*) : (.*)\))?")
_BRACED = re.compile(r"\}(?: \{(?:tt\.\w+ = [\w ]+:? ?\w*(?:, )?)*\})?")
_ACCESS_ATTRIBUTES = re.compile(
    r"(?: (?:cacheModifier|evictionPolicy) = \w+)*"
    r"(?: \{(?:(?:cachePolicy = #tt\.cache_policy<[^>]*>|isVolatile = (?:true|false))(?:, )?)*\})?"
)


class _Line(NamedTuple):
    text: str
    location: str | None


class _Unreadable(Exception):
    """The line at hand is not what the parser knows."""


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
        for argument in _split(header[3]):
            name, _, type_text = argument.partition(": ")
            arguments.append(Argument(name, parse_type(type_text.partition(" {")[0])))
        self._position += 1
        body = self._region()
        if self._take().text != "}":
            self._position -= 1
            raise self._cannot("the end of a function")
        return Function(header[2], tuple(arguments), body)

    def _region(self) -> Region:
        """Everything up to the line that starts with the closing brace, which stays."""
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
            label, arguments, operations = header[1], _arguments(header[2] or ""), []
        blocks.append(Block(label, arguments, tuple(operations)))
        return Region(tuple(blocks))

    def _operation(self) -> Operation:
        start = self._position
        line = self._take()
        body, results = line.text, tuple[str, ...]()
        if match := _RESULT.fullmatch(body):
            base, count, body = match[1], int(match[2] or 0), match[3]
            results = tuple(f"{base}#{index}" for index in range(count)) if count else (base,)
        name, rest = _head(body)
        reader = _READERS.get(name) or _NESTED.get(name)
        if reader is None:
            self._position = start
            raise self._cannot(f"the operation {name}")
        try:
            operation = reader(self, name, rest)
        except (_Unreadable, ValueError, TypeError) as error:
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
        )

    def nested(self, closing: str | re.Pattern[str]) -> Region:
        """A region and its closing line, which must match."""
        region = self._region()
        text = self._take().text
        matches = text == closing if isinstance(closing, str) else closing.fullmatch(text)
        if not matches:
            raise _Unreadable(text)
        return region

    def closed_by(self, text: str) -> bool:
        """Whether the line just read is `text`."""
        return self._lines[self._position - 1].text == text

    def _peek(self) -> _Line:
        if self._position >= len(self._lines):
            raise ExecutorCannot("the native executor got a TTIR text that ends too early")
        return self._lines[self._position]

    def _take(self) -> _Line:
        line = self._peek()
        self._position += 1
        return line

    def _cannot(self, what: str) -> ExecutorCannot:
        text = self._lines[self._position].text
        return ExecutorCannot(f"the native executor does not know {what}{self._place()}: {text}")

    def _place(self) -> str:
        """The kernel line of the operation at the position: its own, or of an opening brace the next one known."""
        for line in self._lines[self._position :]:
            source = self._locations.line(line.location) if line.location else None
            if source is not None:
                return _place(source)
        return " (kernel line unknown)"


def _place(source: SourceLine) -> str:
    return f" (kernel line {source.file}:{source.line}, in {source.function})"


def split_location(line: str) -> _Line:
    """`line` without its ` loc(...)` parts and comments, and what the last one says if it ends the line."""
    if line.startswith("^"):
        line = line.partition("  //")[0]
    location = None
    parts = []
    rest = line
    while (start := rest.find(" loc(")) >= 0:
        end = _closing(rest, start + 4)
        parts.append(rest[:start])
        location = rest[start + 5 : end]
        rest = rest[end + 1 :]
    parts.append(rest)
    return _Line("".join(parts), None if rest else location)


def _closing(text: str, start: int) -> int:
    """Where the parenthesis that opens at `start` closes."""
    depth, quoted = 0, False
    for index in range(start, len(text)):
        character = text[index]
        if character == '"' and text[index - 1] != "\\":
            quoted = not quoted
        elif not quoted and character == "(":
            depth += 1
        elif not quoted and character == ")":
            depth -= 1
            if depth == 0:
                return index
    raise ExecutorCannot(f"the native executor cannot read the location in {text!r}")


def _head(body: str) -> tuple[str, str]:
    """The operation's name, without the quotes of the generic form, and the rest of its line."""
    match = _OPERATION.match(body)
    return (match[1], body[match.end() :].lstrip()) if match else (body, "")


def _split(text: str) -> list[str]:
    """The parts of a list, separated by commas outside any brackets."""
    parts, depth, start = [], 0, 0
    for index, character in enumerate(text):
        if character in "<([{":
            depth += 1
        elif character in ")]}" or (character == ">" and text[index - 1] != "-"):
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def _arguments(text: str) -> tuple[Argument, ...]:
    pairs = (part.split(": ", 1) for part in _split(text))
    return tuple(Argument(name, parse_type(type_text)) for name, type_text in pairs)


def _match(pattern: str, text: str) -> re.Match[str]:
    match = re.fullmatch(pattern, text)
    if match is None:
        raise _Unreadable(text)
    return match


def _names(text: str) -> tuple[str, ...]:
    names = tuple(_split(text))
    for name in names:
        _match(_NAME, name)
    return names


Reader = Callable[[_Parser, str, str], Operation]


def _binary(_: _Parser, name: str, rest: str) -> Operation:
    # Overflow flags promise what LLVM may exploit; the GPU wraps, and so do we.
    match = _match(rf"({_NAME}), ({_NAME})(?: overflow<[\w, ]+>)? : (.*)", rest)
    return Operation(name, None, operands=(match[1], match[2]), types=(parse_type(match[3]),))


def _unary(_: _Parser, name: str, rest: str) -> Operation:
    match = _match(rf"({_NAME}) : (.*)", rest)
    return Operation(name, None, operands=(match[1],), types=(parse_type(match[2]),))


def _cast(_: _Parser, name: str, rest: str) -> Operation:
    match = _match(rf"({_NAME})(?: overflow<[\w, ]+>| nneg)? : (.*) to (.*)", rest)
    return Operation(name, None, operands=(match[1],), types=(parse_type(match[2]), parse_type(match[3])))


def _compare(_: _Parser, name: str, rest: str) -> Operation:
    match = _match(rf"(\w+), ({_NAME}), ({_NAME}) : (.*)", rest)
    if match[1] not in _PREDICATES:
        raise _Unreadable(rest)
    types = (parse_type(match[4]),)
    return Operation(name, None, operands=(match[2], match[3]), types=types, attributes={"predicate": match[1]})


def _select(_: _Parser, name: str, rest: str) -> Operation:
    match = _match(rf"({_NAME}), ({_NAME}), ({_NAME}) : (.*)", rest)
    types = tuple(parse_type(part) for part in _split(match[4]))
    return Operation(name, None, operands=(match[1], match[2], match[3]), types=types)


def _constant(_: _Parser, name: str, rest: str) -> Operation:
    if rest in ("true", "false"):
        return Operation(name, None, types=(parse_type("i1"),), attributes={"value": int(rest == "true")})
    match = _match(r"(?:dense<([^\[\]]*)>|([^ \[\]]*)) : (.*)", rest)
    type_ = parse_type(match[3])
    value = parse_constant(match[1] if match[1] is not None else match[2], type_)
    return Operation(name, None, types=(type_,), attributes={"value": value})


def _program_axis(_: _Parser, name: str, rest: str) -> Operation:
    match = _match(r"([xyz]) : i32", rest)
    return Operation(name, None, types=(parse_type("i32"),), attributes={"axis": "xyz".index(match[1])})


def _add_pointer(_: _Parser, name: str, rest: str) -> Operation:
    match = _match(rf"({_NAME}), ({_NAME}) : (.*)", rest)
    types = tuple(parse_type(part) for part in _split(match[3]))
    return Operation(name, None, operands=(match[1], match[2]), types=types)


def _make_range(_: _Parser, name: str, rest: str) -> Operation:
    match = _match(r"\{end = (-?\d+) : i32, start = (-?\d+) : i32\} : (.*)", rest)
    attributes: dict[str, int | str] = {"start": int(match[2]), "end": int(match[1])}
    return Operation(name, None, types=(parse_type(match[3]),), attributes=attributes)


def _reshape(_: _Parser, name: str, rest: str) -> Operation:
    match = _match(rf"({_NAME})(?: allow_reorder)?(?: efficient_layout)? : (.*) -> (.*)", rest)
    return Operation(name, None, operands=(match[1],), types=(parse_type(match[2]), parse_type(match[3])))


def _expand_dims(_: _Parser, name: str, rest: str) -> Operation:
    match = _match(rf"({_NAME}) \{{axis = (\d+) : i32\}} : (.*) -> (.*)", rest)
    types = (parse_type(match[3]), parse_type(match[4]))
    return Operation(name, None, operands=(match[1],), types=types, attributes={"axis": int(match[2])})


def _transpose(_: _Parser, name: str, rest: str) -> Operation:
    match = _match(rf"({_NAME}) \{{order = array<i32: ([\d, ]+)>\}} : (.*) -> (.*)", rest)
    types = (parse_type(match[3]), parse_type(match[4]))
    return Operation(name, None, operands=(match[1],), types=types, attributes={"order": match[2]})


def _access(_: _Parser, name: str, rest: str) -> Operation:
    match = _match(rf"((?:{_NAME}(?:, )?)+)(.*?) : (.*)", rest)
    if not _ACCESS_ATTRIBUTES.fullmatch(match[2]):
        raise _Unreadable(rest)
    return Operation(name, None, operands=_names(match[1]), types=(parse_type(match[3]),))


def _barrier(_: _Parser, name: str, rest: str) -> Operation:
    if (name, rest) not in (("gpu.barrier", ""), ("ttg.barrier", "all"), ("ttg.barrier", "local")):
        raise _Unreadable(rest)
    return Operation("barrier", None)


def _successor(text: str) -> Successor:
    match = _SUCCESSOR.fullmatch(text)
    if match is None:
        raise _Unreadable(text)
    return Successor(match[1], _names(match[2]) if match[2] else ())


def _branch(_: _Parser, name: str, rest: str) -> Operation:
    return Operation(name, None, successors=(_successor(rest),))


def _conditional_branch(_: _Parser, name: str, rest: str) -> Operation:
    condition, taken, other = _split(rest)
    return Operation(name, None, operands=_names(condition), successors=(_successor(taken), _successor(other)))


def _leave(_: _Parser, name: str, rest: str) -> Operation:
    return Operation(name, None, operands=_names(rest.partition(" : ")[0]))


def _condition(_: _Parser, name: str, rest: str) -> Operation:
    match = _match(rf"\(({_NAME})\)(?: (.*) : .*)?", rest)
    return Operation(name, None, operands=(match[1], *_names(match[2] or "")))


def _if(parser: _Parser, name: str, rest: str) -> Operation:
    match = _match(rf"({_NAME})(?: -> \((.*)\))? \{{", rest)
    types = tuple(parse_type(part) for part in _split(match[2] or ""))
    then = parser.nested(re.compile(r"\} else \{|\}"))
    regions: tuple[Region, ...] = (then,)
    if parser.closed_by("} else {"):
        regions = (then, parser.nested("}"))
    return Operation(name, None, operands=(match[1],), types=types, regions=regions)


def _for(parser: _Parser, name: str, rest: str) -> Operation:
    match = _match(
        rf"(unsigned )?({_NAME}) = ({_NAME}) to ({_NAME}) step ({_NAME})"
        rf"(?: iter_args\((.*?)\) -> \((.*)\))?\s+: (\w+) \{{",
        rest,
    )
    types = tuple(parse_type(part) for part in _split(match[7] or ""))
    pairs = [part.split(" = ") for part in _split(match[6] or "")]
    carried = tuple(Argument(pair[0], type_) for pair, type_ in zip(pairs, types, strict=True))
    return Operation(
        name,
        None,
        operands=(match[3], match[4], match[5], *(pair[1] for pair in pairs)),
        types=types,
        arguments=(Argument(match[2], parse_type(match[8])), *carried),
        attributes={"unsigned": int(match[1] is not None)},
        regions=(parser.nested(_BRACED),),
    )


def _while(parser: _Parser, name: str, rest: str) -> Operation:
    match = _match(r"\((.*)\) : \((.*)\) -> (?:\((.*)\)|(\S+)) \{", rest)
    pairs = [part.split(" = ") for part in _split(match[1])]
    befores = tuple(parse_type(part) for part in _split(match[2]))
    return Operation(
        name,
        None,
        operands=tuple(pair[1] for pair in pairs),
        types=tuple(parse_type(part) for part in _split(match[3] or match[4] or "")),
        arguments=tuple(Argument(pair[0], type_) for pair, type_ in zip(pairs, befores, strict=True)),
        regions=(parser.nested("} do {"), parser.nested(_BRACED)),
    )


_READERS: dict[str, Reader] = {
    **{f"arith.{kind}": _binary for kind in BINARY},
    **{f"arith.{kind}": _cast for kind in CASTS},
    **dict.fromkeys(_RESHAPES, _reshape),
    "math.absi": _unary,
    "arith.cmpi": _compare,
    "arith.select": _select,
    "arith.constant": _constant,
    "tt.get_program_id": _program_axis,
    "tt.get_num_programs": _program_axis,
    "tt.addptr": _add_pointer,
    "tt.make_range": _make_range,
    "tt.expand_dims": _expand_dims,
    "tt.trans": _transpose,
    "tt.load": _access,
    "tt.store": _access,
    "gpu.barrier": _barrier,
    "ttg.barrier": _barrier,
    "cf.br": _branch,
    "cf.cond_br": _conditional_branch,
    "tt.return": _leave,
    "scf.yield": _leave,
    "scf.condition": _condition,
}
_NESTED: dict[str, Reader] = {"scf.if": _if, "scf.for": _for, "scf.while": _while}

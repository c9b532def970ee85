"""The form of each operation of TTIR: how its line, or its nested regions, are read.

The forms are exact: attributes that change the meaning of a kernel are not ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

from harness.kernels.executors.native.constants import parse_constant
from harness.kernels.executors.native.ir import Argument, Operation, Region, Successor
from harness.kernels.executors.native.spelling import NAME, Unreadable, matched, names, split_list
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
_RESHAPES = frozenset(["tt.splat", "tt.broadcast", "tt.ptr_to_int", "tt.bitcast", "tt.reshape"])
_PREDICATES = frozenset(["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"])

_SUCCESSOR = re.compile(r"(\^bb\d+)(?:\((.*) : (.*)\))?")
_BRACED = re.compile(r"\}(?: \{(?:tt\.\w+ = [\w ]+:? ?\w*(?:, )?)*\})?")
_FOLDED = re.compile(r"\}\) : \((.*)\) -> (.*)")
_ACCESS_ATTRIBUTES = re.compile(
    r"(?: (?:cacheModifier|evictionPolicy) = \w+)*"
    r"(?: \{(?:(?:cachePolicy = #tt\.cache_policy<[^>]*>|isVolatile = (?:true|false))(?:, )?)*\})?"
)


class Nesting(Protocol):
    """Reads the regions inside an operation."""

    def nested(self, closing: str | re.Pattern[str]) -> Region:
        """The next region and its closing line, which must match."""

    def closed_by(self, text: str) -> bool:
        """Whether the line just read is `text`."""

    def closing(self) -> str:
        """The line just read."""


Reader = Callable[[Nesting, str, str], Operation]
"""Reads an operation, given its name and the rest of its line. Raises Unreadable or ExecutorCannot."""


def _binary(_: Nesting, name: str, rest: str) -> Operation:
    # Overflow flags are promises that LLVM may exploit; the GPU wraps, and so do we.
    match = matched(rf"({NAME}), ({NAME})(?: overflow<[\w, ]+>)? : (.*)", rest)
    return Operation(name, None, operands=(match[1], match[2]), types=(parse_type(match[3]),))


def _unary(_: Nesting, name: str, rest: str) -> Operation:
    match = matched(rf"({NAME}) : (.*)", rest)
    return Operation(name, None, operands=(match[1],), types=(parse_type(match[2]),))


def _cast(_: Nesting, name: str, rest: str) -> Operation:
    match = matched(rf"({NAME})(?: overflow<[\w, ]+>| nneg)? : (.*) to (.*)", rest)
    return Operation(name, None, operands=(match[1],), types=(parse_type(match[2]), parse_type(match[3])))


def _compare(_: Nesting, name: str, rest: str) -> Operation:
    match = matched(rf"(\w+), ({NAME}), ({NAME}) : (.*)", rest)
    if match[1] not in _PREDICATES:
        raise Unreadable(rest)
    types = (parse_type(match[4]),)
    return Operation(name, None, operands=(match[2], match[3]), types=types, attributes={"predicate": match[1]})


def _select(_: Nesting, name: str, rest: str) -> Operation:
    match = matched(rf"({NAME}), ({NAME}), ({NAME}) : (.*)", rest)
    types = tuple(parse_type(part) for part in split_list(match[4]))
    return Operation(name, None, operands=(match[1], match[2], match[3]), types=types)


def _constant(_: Nesting, name: str, rest: str) -> Operation:
    if rest in ("true", "false"):
        return Operation(name, None, types=(parse_type("i1"),), attributes={"value": int(rest == "true")})
    match = matched(r"(?:dense<([^\[\]]*)>|([^ \[\]]*)) : (.*)", rest)
    type_ = parse_type(match[3])
    value = parse_constant(match[1] if match[1] is not None else match[2], type_)
    return Operation(name, None, types=(type_,), attributes={"value": value})


def _program_axis(_: Nesting, name: str, rest: str) -> Operation:
    match = matched(r"([xyz]) : i32", rest)
    return Operation(name, None, types=(parse_type("i32"),), attributes={"axis": "xyz".index(match[1])})


def _add_pointer(_: Nesting, name: str, rest: str) -> Operation:
    match = matched(rf"({NAME}), ({NAME}) : (.*)", rest)
    types = tuple(parse_type(part) for part in split_list(match[3]))
    return Operation(name, None, operands=(match[1], match[2]), types=types)


def _make_range(_: Nesting, name: str, rest: str) -> Operation:
    match = matched(r"\{end = (-?\d+) : i32, start = (-?\d+) : i32\} : (.*)", rest)
    attributes: dict[str, int | str] = {"start": int(match[2]), "end": int(match[1])}
    return Operation(name, None, types=(parse_type(match[3]),), attributes=attributes)


def _reshape(_: Nesting, name: str, rest: str) -> Operation:
    match = matched(rf"({NAME})(?: allow_reorder)?(?: efficient_layout)? : (.*) -> (.*)", rest)
    return Operation(name, None, operands=(match[1],), types=(parse_type(match[2]), parse_type(match[3])))


def _to_pointer(_: Nesting, name: str, rest: str) -> Operation:
    match = matched(rf"({NAME})(?: \{{tt\.divisibility = dense<(\d+)> : tensor<1xi32>\}})? : (.*) -> (.*)", rest)
    types = (parse_type(match[3]), parse_type(match[4]))
    return Operation(name, None, operands=(match[1],), types=types, attributes={"divisibility": int(match[2] or 1)})


def _expand_dims(_: Nesting, name: str, rest: str) -> Operation:
    match = matched(rf"({NAME}) \{{axis = (\d+) : i32\}} : (.*) -> (.*)", rest)
    types = (parse_type(match[3]), parse_type(match[4]))
    return Operation(name, None, operands=(match[1],), types=types, attributes={"axis": int(match[2])})


def _transpose(_: Nesting, name: str, rest: str) -> Operation:
    match = matched(rf"({NAME}) \{{order = array<i32: ([\d, ]+)>\}} : (.*) -> (.*)", rest)
    types = (parse_type(match[3]), parse_type(match[4]))
    return Operation(name, None, operands=(match[1],), types=types, attributes={"order": match[2]})


def _access(_: Nesting, name: str, rest: str) -> Operation:
    match = matched(rf"((?:{NAME}(?:, )?)+)(.*?) : (.*)", rest)
    if not _ACCESS_ATTRIBUTES.fullmatch(match[2]):
        raise Unreadable(rest)
    return Operation(name, None, operands=names(match[1]), types=(parse_type(match[3]),))


def _barrier(_: Nesting, name: str, rest: str) -> Operation:
    if (name, rest) not in (("gpu.barrier", ""), ("ttg.barrier", "all"), ("ttg.barrier", "local")):
        raise Unreadable(rest)
    return Operation("barrier", None)


def _successor(text: str) -> Successor:
    match = _SUCCESSOR.fullmatch(text)
    if match is None:
        raise Unreadable(text)
    return Successor(match[1], names(match[2]) if match[2] else ())


def _branch(_: Nesting, name: str, rest: str) -> Operation:
    return Operation(name, None, successors=(_successor(rest),))


def _conditional_branch(_: Nesting, name: str, rest: str) -> Operation:
    condition, taken, other = split_list(rest)
    return Operation(name, None, operands=names(condition), successors=(_successor(taken), _successor(other)))


def _leave(_: Nesting, name: str, rest: str) -> Operation:
    return Operation(name, None, operands=names(rest.partition(" : ")[0]))


def _condition(_: Nesting, name: str, rest: str) -> Operation:
    match = matched(rf"\(({NAME})\)(?: (.*) : .*)?", rest)
    return Operation(name, None, operands=(match[1], *names(match[2] or "")))


def _if(parser: Nesting, name: str, rest: str) -> Operation:
    match = matched(rf"({NAME})(?: -> \((.*)\))? \{{", rest)
    types = tuple(parse_type(part) for part in split_list(match[2] or ""))
    then = parser.nested(re.compile(r"\} else \{|\}"))
    regions: tuple[Region, ...] = (then,)
    if parser.closed_by("} else {"):
        regions = (then, parser.nested("}"))
    return Operation(name, None, operands=(match[1],), types=types, regions=regions)


def _for(parser: Nesting, name: str, rest: str) -> Operation:
    match = matched(
        rf"(unsigned )?({NAME}) = ({NAME}) to ({NAME}) step ({NAME})"
        rf"(?: iter_args\((.*?)\) -> \((.*)\))?\s+: (\w+) \{{",
        rest,
    )
    types = tuple(parse_type(part) for part in split_list(match[7] or ""))
    pairs = [part.split(" = ") for part in split_list(match[6] or "")]
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


def _while(parser: Nesting, name: str, rest: str) -> Operation:
    match = matched(r"\((.*)\) : \((.*)\) -> (?:\((.*)\)|(\S+)) \{", rest)
    pairs = [part.split(" = ") for part in split_list(match[1])]
    befores = tuple(parse_type(part) for part in split_list(match[2]))
    return Operation(
        name,
        None,
        operands=tuple(pair[1] for pair in pairs),
        types=tuple(parse_type(part) for part in split_list(match[3] or match[4] or "")),
        arguments=tuple(Argument(pair[0], type_) for pair, type_ in zip(pairs, befores, strict=True)),
        regions=(parser.nested("} do {"), parser.nested(_BRACED)),
    )


def _fold(parser: Nesting, name: str, rest: str) -> Operation:
    match = matched(rf"\(({NAME})\) <\{{axis = 0 : i32(?:, reverse = (true|false))?\}}> \(\{{", rest)
    region = parser.nested(_FOLDED)
    types = matched(_FOLDED.pattern, parser.closing())
    return Operation(
        name,
        None,
        operands=(match[1],),
        types=(parse_type(types[1]), parse_type(types[2])),
        attributes={"reverse": int(match[2] == "true")},
        regions=(region,),
    )


def _atomic(_: Nesting, name: str, rest: str) -> Operation:
    match = matched(rf"(\w+), (\w+), (\w+), ({NAME}), ({NAME})(?:, ({NAME}))? : \((.*)\) -> (.*)", rest)
    operands = tuple(operand for operand in (match[4], match[5], match[6]) if operand)
    attributes: dict[str, int | str] = {"kind": match[1], "order": match[2], "scope": match[3]}
    return Operation(name, None, operands=operands, types=(parse_type(match[8]),), attributes=attributes)


READERS: dict[str, Reader] = {
    **{f"arith.{kind}": _binary for kind in BINARY},
    **{f"arith.{kind}": _cast for kind in CASTS},
    **dict.fromkeys(_RESHAPES, _reshape),
    "tt.int_to_ptr": _to_pointer,
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
    "tt.atomic_rmw": _atomic,
    "tt.reduce": _fold,
    "tt.reduce.return": _leave,
    "tt.scan": _fold,
    "tt.scan.return": _leave,
    "gpu.barrier": _barrier,
    "ttg.barrier": _barrier,
    "cf.br": _branch,
    "cf.cond_br": _conditional_branch,
    "tt.return": _leave,
    "scf.yield": _leave,
    "scf.condition": _condition,
    "scf.if": _if,
    "scf.for": _for,
    "scf.while": _while,
}

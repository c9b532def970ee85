"""A constant is a number as TTIR spells it; this module converts it to the bits for LLVM."""

from __future__ import annotations

import struct

from harness.kernels.executors.base import ExecutorCannot
from harness.kernels.executors.native.types import Float, Integer, Type, element_of

_FORMATS = {"f16": ("<e", "<H"), "f32": ("<f", "<I"), "f64": ("<d", "<Q")}


def parse_constant(text: str, type_: Type) -> int:
    """The value of a scalar or splat constant: an integer, or a float's bits. Raises ExecutorCannot for others."""
    element = element_of(type_)
    if isinstance(element, Integer):
        if text in ("true", "false"):
            return int(text == "true")
        return int(text)
    if isinstance(element, Float):
        if text.startswith("0x"):
            return int(text, 16)
        value = float(text)
        if value == 0.0 and not text.startswith("-"):
            return 0
        if element.name in _FORMATS:
            packing, unpacking = _FORMATS[element.name]
            bits = struct.unpack(unpacking, struct.pack(packing, value))[0]
            assert isinstance(bits, int)
            return bits
    raise ExecutorCannot(f"the native executor has no constant {text} of this type")

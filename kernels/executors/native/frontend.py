"""The front end is Triton's own: it turns a kernel's Python source into TTIR, which needs no GPU.

It runs as for one fixed kind of NVIDIA GPU and stops before anything depends on layouts or instructions. These are
requested only where it matters which warp runs a lane. No argument is specialised on being 1: that changes no value.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.compiler import make_backend

_TARGET = GPUTarget("cuda", 90, 32)
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Translation:
    """TTIR of a kernel and, if requested and available from Triton, the same with layouts (TTGIR)."""

    ttir: str
    ttgir: str | None = None


def translate(
    kernel: Any,
    signature: Mapping[str, str],
    constants: Mapping[str, Any],
    num_warps: int | None = None,
    *,
    layouts: bool = False,
) -> Translation:
    """TTIR of a Triton kernel, as text with locations, device functions inlined; if `layouts` for `num_warps` warps are
    requested, also TTGIR, which takes most of the time.

    `signature` gives each parameter's type as Triton writes it (`*i32`, `i64`, `constexpr`), `constants` the values
    of those that are `constexpr`. Layouts are those for pointers aligned to 16 bytes, as all tensors are in
    production. Raises Triton's exception for a kernel that it cannot compile.
    """
    aligned: dict[tuple[int, ...], list[list[object]]] = {}
    if num_warps is not None:
        aligned = {
            (number,): [["tt.divisibility", 16]]
            for number, type_ in enumerate(signature.values())
            if type_.startswith("*")
        }
    source = ASTSource(kernel, dict(signature), dict(constants), aligned)
    backend = make_backend(_TARGET)
    # Floating-point fusion is set because Triton warns where it has to choose.
    options = backend.parse_options(
        {"enable_fp_fusion": True, **({} if num_warps is None else {"num_warps": num_warps})}
    )
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    functions = backend.get_codegen_implementation(options)
    module = source.make_ir(_TARGET, options, functions, backend.get_module_map(), context)
    module = type(backend).make_ttir(module, {}, options, _TARGET.arch)
    ttir = str(module)
    return Translation(ttir, _with_layouts(backend, module, options) if layouts else None)


def _with_layouts(backend: Any, module: Any, options: Any) -> str | None:
    try:
        return str(type(backend).make_ttgir(module, {}, options, _TARGET.arch))
    except RuntimeError as error:  # raised by a pass of Triton that does not support this kernel
        _logger.info("no layouts from Triton: %s", error)
        return None


@functools.cache
def launch_options() -> frozenset[str]:
    """The keyword arguments of a launch that are Triton's and not the kernel's, such as `num_warps`."""
    options = make_backend(_TARGET).parse_options({"enable_fp_fusion": True})
    return frozenset(options.__dict__)

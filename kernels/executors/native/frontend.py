"""The front end is Triton's own: it turns a kernel's Python source into TTIR. No GPU is needed for that.

It runs as for an NVIDIA GPU of one fixed kind and stops before anything depends on layouts or instructions. Nothing
is said about divisibility, and no argument is specialised on being 1: neither changes a value.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.compiler import make_backend

_TARGET = GPUTarget("cuda", 90, 32)


def translate(kernel: Any, signature: Mapping[str, str], constants: Mapping[str, Any]) -> str:
    """TTIR of a Triton kernel, as text with locations, device functions inlined.

    `signature` gives each parameter's type as Triton writes it (`*i32`, `i64`, `constexpr`), `constants` the values
    of those that are `constexpr`. Raises what Triton raises for a kernel that it cannot compile.
    """
    source = ASTSource(kernel, dict(signature), dict(constants))
    backend = make_backend(_TARGET)
    # Floating-point fusion is named because Triton warns where it has to choose.
    options = backend.parse_options({"enable_fp_fusion": True})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    functions = backend.get_codegen_implementation(options)
    module = source.make_ir(_TARGET, options, functions, backend.get_module_map(), context)
    module = type(backend).make_ttir(module, {}, options, _TARGET.arch)
    return str(module)


@functools.cache
def launch_options() -> frozenset[str]:
    """The keyword arguments of a launch that are Triton's and not the kernel's, such as `num_warps`."""
    options = make_backend(_TARGET).parse_options({"enable_fp_fusion": True})
    return frozenset(options.__dict__)

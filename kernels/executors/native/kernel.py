"""A native kernel is the result of `triton.jit` under this executor: a JIT function whose launches come here.

Binding arguments follows Triton: tensors and integers are passed, None and `tl.constexpr` parameters are compile-time
constants, an integer's type comes from its annotation or its size.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from triton.runtime.jit import JITFunction

from harness.kernels.executors.base import ExecutorCannot
from harness.kernels.executors.native.emit import EmitOptions
from harness.kernels.executors.native.frontend import launch_options
from harness.kernels.executors.native.variant import KernelVariant

_DTYPES = {
    torch.bool: "i1",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint8: "u8",
    torch.uint16: "u16",
    torch.uint32: "u32",
    torch.uint64: "u64",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float32: "fp32",
    torch.float64: "fp64",
}
_RANGES = {
    "i1": (0, 1),
    "u1": (0, 1),
    **{f"i{bits}": (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) for bits in (8, 16, 32, 64)},
    **{f"u{bits}": (0, (1 << bits) - 1) for bits in (8, 16, 32, 64)},
}
_WORD_MASK = (1 << 64) - 1
DEFAULT_WARPS = 4
"""Default number of warps of a program."""
_GRID_LIMITS = ((1 << 31) - 1, 65535, 65535)

Binder = Callable[..., tuple[tuple[Any, ...], tuple[Any, ...], dict[str, Any]]]


class Launcher(Protocol):
    """The parts of the executor that a kernel uses."""

    def compiled_in(self, num_warps: int) -> EmitOptions:
        """What is compiled in for `num_warps` warps from now on. Raises ExecutorCannot for too many warps."""

    def load(
        self, kernel: Any, signature: Mapping[str, str], constants: Mapping[str, Any], num_warps: int
    ) -> KernelVariant:
        """Compile a variant of a kernel, or find it in the cache."""

    def launch(self, variant: KernelVariant, grid: tuple[int, int, int], arguments: list[int]) -> None:
        """Run a variant over a grid."""


class NativeKernel(JITFunction[Any]):  # type: ignore[misc]
    """A Triton kernel or device function. `variants` are its compiled forms by argument types and constants."""

    def __init__(self, launcher: Launcher, function: Callable[..., Any], **options: Any) -> None:
        super().__init__(function, **options)
        self._launcher = launcher
        self.variants: dict[Any, KernelVariant] = {}
        self._passed = [parameter for parameter in self.params if not parameter.is_constexpr]
        self._constant = [parameter for parameter in self.params if parameter.is_constexpr]
        self._annotated = [_integer_annotation(parameter) for parameter in self._passed]
        self._binder: Binder | None = None

    def run(self, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        """Launch the kernel over `grid`; only compile it if `warmup`."""
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        binder = self._binder or self._make_binder()
        passed, constants, options = binder(*args, **kwargs)
        if options and not launch_options().issuperset(options):
            unknown = next(name for name in options if name not in launch_options())
            raise KeyError(f"{self.__name__} was launched with the unknown keyword argument {unknown}")
        # What the executor itself asks of tensors is no use of them: watchers of calls, which cost more, are left out.
        with torch._C.DisableTorchFunction():
            kinds, words = self._arguments(passed)
        num_warps = int(options.get("num_warps", DEFAULT_WARPS))
        key = (kinds, constants, tuple(map(type, constants)), num_warps, self._launcher.compiled_in(num_warps))
        variant = self.variants.get(key)
        if variant is None:
            self.variants[key] = variant = self._compile(kinds, passed, constants, num_warps)
        if warmup:
            return
        if callable(grid):
            grid = grid(self._by_name(passed, constants))
        self._launcher.launch(variant, self._grid(grid), words)

    def _arguments(self, passed: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[int]]:
        """What determines the type of each argument, and the words of those that are passed."""
        kinds: list[Any] = []
        words: list[int] = []
        for number, (value, annotated) in enumerate(zip(passed, self._annotated, strict=True)):
            if isinstance(value, torch.Tensor):
                kinds.append(value.dtype)
                words.append(value.data_ptr() & _WORD_MASK)
            elif isinstance(value, int):
                kind = annotated or _integer_type(value)
                low, high = _RANGES[kind]
                if not low <= value <= high:
                    name = self._passed[number].name
                    raise OverflowError(f"{self.__name__}: {name} = {value} does not fit {kind}")
                kinds.append(kind)
                words.append(int(value) & _WORD_MASK)
            elif value is None:
                kinds.append(None)
            elif hasattr(value, "data_ptr") and hasattr(value, "base"):
                # triton.reinterpret: a tensor viewed as another type.
                kinds.append(f"*{value.dtype}")
                words.append(value.data_ptr() & _WORD_MASK)
            else:
                name = self._passed[number].name
                raise ExecutorCannot(
                    f"the native executor cannot pass {type(value).__name__} as {self.__name__}'s {name}"
                )
        return tuple(kinds), words

    def _compile(
        self, kinds: tuple[Any, ...], passed: tuple[Any, ...], constants: tuple[Any, ...], num_warps: int
    ) -> KernelVariant:
        types: dict[str, str] = {}
        values: dict[str, Any] = {}
        for parameter, kind, value in zip(self._passed, kinds, passed, strict=True):
            if kind is None:
                types[parameter.name], values[parameter.name] = "constexpr", None
            elif isinstance(kind, str):
                types[parameter.name] = kind
            else:
                if value.device.type != "cpu":
                    raise ExecutorCannot(
                        f"the native executor runs on the CPU, and {self.__name__}'s {parameter.name} is on"
                        f" {value.device}"
                    )
                if kind not in _DTYPES:
                    raise ExecutorCannot(f"the native executor has no tensors of {kind}")
                types[parameter.name] = f"{'*k' if parameter.is_const else '*'}{_DTYPES[kind]}"
        for parameter, value in zip(self._constant, constants, strict=True):
            types[parameter.name], values[parameter.name] = "constexpr", value
        signature = {parameter.name: types[parameter.name] for parameter in self.params}
        return self._launcher.load(self, signature, values, num_warps)

    def _grid(self, grid: Sequence[int]) -> tuple[int, int, int]:
        sizes = [int(size) for size in grid]
        if not 1 <= len(sizes) <= 3:
            raise ValueError(f"{self.__name__} was launched over a grid of {len(sizes)} dimensions")
        sizes += [1] * (3 - len(sizes))
        if any(not 0 <= size <= limit for size, limit in zip(sizes, _GRID_LIMITS, strict=True)):
            raise ValueError(f"{self.__name__} was launched over the grid {tuple(sizes)}, which CUDA refuses")
        return sizes[0], sizes[1], sizes[2]

    def _by_name(self, passed: tuple[Any, ...], constants: tuple[Any, ...]) -> dict[str, Any]:
        named = {parameter.name: value for parameter, value in zip(self._passed, passed, strict=True)}
        named |= {parameter.name: value for parameter, value in zip(self._constant, constants, strict=True)}
        return {parameter.name: named[parameter.name] for parameter in self.params}

    def _make_binder(self) -> Binder:
        """A function with the kernel's own parameters that sorts its arguments: passed values, constants, options.

        Python binds by name and default much faster than `inspect.Signature.bind`.
        """
        namespace: dict[str, Any] = {}
        header: list[str] = []
        keyword_only = False
        for parameter in self.signature.parameters.values():
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                raise ExecutorCannot(f"the native executor cannot bind *{parameter.name} of {self.__name__}")
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not keyword_only:
                header.append("*")
                keyword_only = True
            if parameter.default is inspect.Parameter.empty:
                header.append(parameter.name)
            else:
                namespace[f"default_{parameter.name}"] = parameter.default
                header.append(f"{parameter.name}=default_{parameter.name}")
        passed = "".join(f"{parameter.name}, " for parameter in self._passed)
        constants = "".join(f"{parameter.name}, " for parameter in self._constant)
        source = f"def bind({', '.join(header)}, **launch_options): return ({passed}), ({constants}), launch_options"
        if not header:
            source = "def bind(**launch_options): return (), (), launch_options"
        exec(source, namespace)
        binder: Binder = namespace["bind"]
        self._binder = binder
        return binder


def _integer_annotation(parameter: Any) -> str | None:
    """The integer type that a parameter is annotated with, if any."""
    annotation = parameter.annotation_type
    return annotation if annotation in _RANGES else None


def _integer_type(value: int) -> str:
    """The type that Triton gives an integer by its size."""
    if isinstance(value, bool):
        return "i1"
    if -(1 << 31) <= value < 1 << 31:
        return "i32"
    return "i64" if value < 1 << 63 else "u64"

"""The interpreter executor runs kernels in Triton's own interpreter: slow, and the reference for semantics.

It runs one program after another in the natural order and sees only the resulting bytes. The interpreter has to be
chosen before Triton is imported, for the whole process.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from harness.kernels.executors.base import Executor
from harness.kernels.executors.host_memory import HostArena
from harness.kernels.executors.requirements import unmet

if TYPE_CHECKING:
    from harness.kernels.executors.base import Arena

_TOO_LATE = "Triton was imported before TRITON_INTERPRET=1 was set; start a new process with it set"


class InterpreterExecutor(Executor):
    """Runs kernels in Triton's interpreter. Raises RuntimeError if Triton was already imported without it."""

    name = "interpreter"
    order = "natural"

    def __init__(self) -> None:
        if "triton" not in sys.modules:
            os.environ["TRITON_INTERPRET"] = "1"
        import torch

        if not _interpreting():
            raise RuntimeError(_TOO_LATE)
        self.device = torch.device("cpu")

    @classmethod
    def unavailable(cls) -> str | None:
        reason = unmet("torch", "triton", "numpy")
        if reason is not None:
            return reason
        triton, numpy = importlib.metadata.version("triton"), importlib.metadata.version("numpy")
        if _release(triton) < (3, 7) and _release(numpy) >= (2, 4):
            # https://github.com/triton-lang/triton/issues/9171: loops with bounds computed in the kernel fail.
            return f"the interpreter of Triton {triton} does not work with NumPy {numpy}; NumPy below 2.4 is needed"
        return None

    def allocate(self, size: int) -> Arena:
        return HostArena(size)

    def jit(self, function: Callable[..., Any], **options: Any) -> Any:
        from triton.runtime.interpreter import InterpretedFunction

        executor = self

        class CountedFunction(InterpretedFunction):  # type: ignore[misc]
            """An interpreted kernel whose launches are counted."""

            def run(self, *arguments: Any, grid: Any, warmup: bool, **keywords: Any) -> Any:
                if not warmup:
                    executor.transfers.finish()
                    executor.launches += 1
                return super().run(*arguments, grid=grid, warmup=warmup, **keywords)

        return CountedFunction(function, **options)


def _release(version: str) -> tuple[int, ...]:
    """Major and minor version number."""
    return tuple(int(number) for number in version.split(".")[:2])


def _interpreting() -> bool:
    """Whether Triton's own device functions were made for the interpreter at import."""
    import triton.language
    from triton.runtime.interpreter import InterpretedFunction

    return isinstance(triton.language.cdiv, InterpretedFunction)

"""V1 stubs take the place of a runner, of buffers and of the context of kernels, for the V1 host code.

They hold the given values and keep what is passed to them; reading anything else raises an error that names it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

from harness.refusal import UnknownTarget


class Stub:
    """An object that raises an error with the name of any attribute that it does not have."""

    def __init__(self, what: str, **values: Any) -> None:
        self.__dict__.update(values, _what=what)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise UnknownTarget(f"this release's {self._what} needs {name}, which its stub does not have")


def _do_nothing(*_: Any, **__: Any) -> None:
    """Ignores all arguments."""


class _Nothing:
    """Has every method, and each does nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        self.__dict__[name] = _do_nothing
        return _do_nothing


NOTHING = _Nothing()


class KernelContext:
    """Takes the place of the context of the fused kernels: keeps what `preprocess_mamba` passes to it."""

    is_initialized = True
    mamba_state_idx_buf: HostBuffer
    num_scheduled_tokens_buf: HostBuffer
    num_computed_tokens_buf: HostBuffer
    num_draft_tokens_buf: HostBuffer

    def __init__(self, make: Callable[[], Any], groups: list[int]) -> None:
        self.mamba_group_ids = groups
        self.num_groups = len(groups)
        for name in ("mamba_state_idx", "num_scheduled_tokens", "num_computed_tokens", "num_draft_tokens"):
            setattr(self, f"{name}_buf", make())
        self.precopy_src_col_buf = make()
        self.precopy_token_bias_buf = make()

    def run_fused_precopy(self, *_: Any, **__: Any) -> None:
        """Nothing: what it would copy is read from the buffers."""

    def passed_on(self, names: list[str]) -> Iterator[tuple[int, int, int]]:
        """Source column, destination column and bias of each row of the batch."""
        buffers = (self.precopy_src_col_buf, self.mamba_state_idx_buf, self.precopy_token_bias_buf)
        return zip(*(buffer.np[: len(names)].tolist() for buffer in buffers), strict=True)


class HostBuffer:
    """Host side of a buffer of int32; there is no device side."""

    def __init__(self, size: int) -> None:
        import numpy as np

        self.np = np.zeros(size, dtype=np.int32)
        self.gpu = self.np

    def copy_to_gpu(self, n: int | None = None) -> None:
        """Nothing: readers read `np`."""


_seen: set[str] = set()
"""Names of the modules that `without_pinned_memory` has examined."""


def without_pinned_memory() -> None:
    """Without a GPU no memory can be pinned: some releases decide that when they are imported, and wrongly."""
    if len(sys.modules) == len(_seen):  # every worker calls this, and some modules are slow to inspect
        return
    fresh = sys.modules.keys() - _seen
    _seen.update(fresh)
    for name in fresh:
        loaded = sys.modules[name]
        if name.startswith("vllm.") and getattr(loaded, "PIN_MEMORY", False) is True:
            loaded.PIN_MEMORY = False  # type: ignore[attr-defined]

"""A reserve is memory that compiled code writes to: allocated once, without cost until it is used."""

from __future__ import annotations

import mmap

import numpy as np

from harness.kernels.executors.base import ExecutorCannot

# The Linux value, for Python versions whose mmap module does not have it.
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)


def reserve(size: int) -> np.ndarray:
    """`size` zero bytes. Raises ExecutorCannot if the address space has no room."""
    try:
        mapping = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
    except OSError as error:
        raise ExecutorCannot(f"no room for the native executor's own memory: {error}") from error
    return np.frombuffer(mapping, dtype=np.uint8)

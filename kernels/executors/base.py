"""An executor is a way to run a target's Triton kernels: on a GPU, in Triton's interpreter, or compiled for the CPU.

It owns three things: the device memory that arenas live in, the replacement of `triton.jit` that a target's modules
are loaded with (so that every `kernel[grid](...)` reaches the executor and is counted), and what it saw while the
kernels ran. One process serves one executor: Triton's interpreter is chosen before Triton is imported.
"""

from __future__ import annotations

import abc
import contextlib
import functools
import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from harness.kernels.executors.transfers import Transfers
from harness.refusal import Refusal
from harness.text import code_place

if TYPE_CHECKING:
    import numpy as np
    import torch

    from harness.accesses import RecordedLaunch


class DeviceFault(Exception):
    """A kernel took the device down, and with it this process: every later call fails, whatever it does."""


class ExecutorCannot(Exception):
    """The executor is unable to run this kernel or case: a skip (`executor-cannot`), never a pass."""


class KernelDoesNotCompile(Refusal):
    """A kernel of the target is no valid Triton: nothing can be said about any case. The message is one line."""


@dataclass(frozen=True)
class AccessSpan:
    """Bytes `[start, start + size)` of the arena (offsets, not addresses) that kernels may touch.

    `name` says what lies there in the words of the domain, `kind` is the kind of object as used in signatures.
    What is not `writable` kernels may only read.
    """

    start: int
    size: int
    kind: str
    name: str
    writable: bool = True


class AllowedSpans(Sequence[AccessSpan]):
    """What kernels may touch in one call: `fixed`, the same tuple from call to call, and then `more`.

    An executor may keep what it has made of `fixed`.
    """

    def __init__(self, fixed: tuple[AccessSpan, ...], more: Sequence[AccessSpan]) -> None:
        self.fixed, self.more = fixed, tuple(more)

    def __len__(self) -> int:
        return len(self.fixed) + len(self.more)

    def __getitem__(self, number: Any) -> Any:
        return (*self.fixed, *self.more)[number]

    def __iter__(self) -> Iterator[AccessSpan]:
        return itertools.chain(self.fixed, self.more)


Violation = Literal["out-of-bounds", "misaligned", "read-only", "undefined-address", "undefined-branch"]


@dataclass(frozen=True)
class AccessFault:
    """One access that a checking executor saw and suppressed, or a use of a number that nobody has defined.

    `violation` is `out-of-bounds`, `misaligned` or `read-only` (a store to what no kernel may write);
    `offset` is the arena offset of the access's first byte. Or it is `undefined-address` or `undefined-branch` (a mask,
    a condition, the bound of a loop): then `offset` is where the undefined number was read;
    `line` of `file` is the kernel's source line, `source` its function; `program` the grid indices, `lane` the lane.
    """

    violation: Violation
    is_store: bool
    offset: int
    width: int
    kernel: str
    file: str
    source: str
    line: int
    program: tuple[int, int, int]
    lane: int

    @property
    def where(self) -> str:
        """What made it, in words."""
        place = code_place(self.file, self.line, self.source)
        return f"{self.kernel}, {place}, program {self.program}, lane {self.lane}"


class Arena(abc.ABC):
    """Device memory that holds one case: `size` bytes, addressed by offset.

    Its base is aligned to at least 256 bytes, so an offset's alignment is the address's alignment.
    """

    size: int
    address: int

    @abc.abstractmethod
    def write(self, offset: int, data: np.ndarray) -> None:
        """Copy bytes (uint8, one dimension) into the arena."""

    @abc.abstractmethod
    def read(self, offset: int, size: int) -> np.ndarray:
        """Bytes of the arena, after everything launched so far has finished. May be a view: do not keep it."""

    def write_all(self, spans: Sequence[tuple[int, int]], data: np.ndarray) -> None:
        """Copy bytes into several spans `(offset, size)`; `data` holds those of one after those of the other."""
        place = 0
        for offset, size in spans:
            self.write(offset, data[place : place + size])
            place += size

    def read_all(self, spans: Sequence[tuple[int, int]]) -> np.ndarray:
        """A copy of the bytes of several spans `(offset, size)`, one after the other, at the price of one wait."""
        import numpy as np

        return np.concatenate([self.read(offset, size) for offset, size in spans])

    @abc.abstractmethod
    def tensor(
        self, offset: int, size: int, dtype: torch.dtype, shape: Sequence[int], strides: Sequence[int]
    ) -> torch.Tensor:
        """A tensor over bytes `[offset, offset + size)`, which are its whole storage. Strides in elements."""

    def discard(self, offset: int, size: int) -> None:  # noqa: B027 - most memory has nothing to give back
        """Say that these bytes are not needed any more; what they hold afterwards is undefined."""


ProgramOrder = Literal["natural", "reversed"] | tuple[Literal["shuffled"], int]


class Executor(abc.ABC):
    """Runs kernels. `launches` counts them since the last `begin`.

    `program_order` is the order in which to run the programs of a launch; executors that cannot choose ignore it.
    """

    name: ClassVar[str]
    instrumented: ClassVar[bool] = False
    """Whether it can watch what cases ask for."""
    imports: ClassVar[str] = "triton"
    """The module that imports all that it runs kernels with."""
    device: torch.device
    launches: int = 0
    program_order: ProgramOrder = "natural"
    interleave: int = 0
    """Programs to have under way at a time, switching between them before each load and store; 0: one after the other.
    Executors that cannot choose ignore it."""
    warps_apart: bool = False
    """Whether the warps of a program are under way by themselves, where the executor can do that."""
    schedule_seed: int = 0
    """What the schedules of interleaved launches are drawn from."""
    on_launch: Callable[[], None] | None = None
    """Called before each launch by executors that keep shadows: what host code has written since is defined."""

    @functools.cached_property
    def transfers(self) -> Transfers:
        """Copies to the device that nobody waits for. Executors that run kernels at once finish them before each."""
        return Transfers()

    @classmethod
    def create(cls, checks: Collection[str] | None = None) -> Executor:
        """A new one that watches at most `checks` (None: all that it can).

        Raises RuntimeError if it cannot run here.
        """
        return cls()

    @classmethod
    @abc.abstractmethod
    def unavailable(cls) -> str | None:
        """Why this machine cannot run it, in one sentence; None if it can."""

    @abc.abstractmethod
    def allocate(self, size: int) -> Arena:
        """A new arena of at least `size` bytes. Raises ExecutorCannot if the device has no room."""

    @abc.abstractmethod
    def jit(self, function: Callable[..., Any], **options: Any) -> Any:
        """What `triton.jit(function, **options)` gives while a target's modules are being loaded."""

    def begin(self, arena: Arena, spans: Sequence[AccessSpan]) -> None:
        """Start watching: forget launches and faults; from here on kernels may touch `spans` of `arena`."""
        self.launches = 0

    def raise_addresses(self, arena: Arena, raised: bool) -> None:  # noqa: B027 - a GPU's addresses are what they are
        """Have kernels and host code see addresses of `arena` with the highest bit set, or not; tensors made before
        keep what they say."""

    def watch(self, checks: Collection[str]) -> None:  # noqa: B027 - most executors watch nothing
        """Choose what to watch from here on, among what the executor was made to watch."""

    def is_device_fault(self, error: BaseException) -> bool:
        """Whether an exception says that the device, as this process sees it, is gone."""
        return False

    def faults(self) -> Sequence[AccessFault]:
        """Accesses seen outside the spans since `begin`. Only checking executors see any."""
        return ()

    def recorded(self) -> Sequence[RecordedLaunch]:
        """What each launch since `begin` loaded and stored. Only executors asked for races know."""
        return ()

    def shadow(self, arena: Arena) -> Arena | None:
        """Memory that holds, for each byte of `arena`, 255 if nobody has defined it and else 0, kept up by kernels.

        Only executors that are told to watch undefined numbers have one.
        """
        return None

    def executed_lines(self) -> Collection[tuple[str, str, int]]:
        """Kernel lines that have run so far, as (file, function, line). Only some executors know."""
        return ()

    def known_lines(self) -> Collection[tuple[str, str, int]]:
        """All lines of the kernels launched so far: what `executed_lines` can at most hold."""
        return ()

    def under_way(self, seconds: float) -> tuple[str, Sequence[tuple[str, str, int]]] | None:
        """The kernel that runs at this moment, and which of its lines it runs during the next `seconds`, as far as they
        are known; None if none runs. For another thread than the one that launches."""
        return None


@contextlib.contextmanager
def dispatching(executor: Executor) -> Iterator[None]:
    """While this lasts, `triton.jit` makes kernels whose launches reach `executor`."""
    import triton

    def jit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
        if function is None:
            return lambda late: executor.jit(late, **options)
        return executor.jit(function, **options)

    original, original_runtime = triton.jit, triton.runtime.jit.jit
    triton.jit = triton.runtime.jit.jit = jit
    try:
        yield
    finally:
        triton.jit, triton.runtime.jit.jit = original, original_runtime

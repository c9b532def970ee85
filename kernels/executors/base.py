"""An executor is a way to run a target's Triton kernels: on a GPU, in Triton's interpreter, or compiled for the CPU.

It owns three things: the device memory of arenas, the replacement of `triton.jit` with which a target's modules are
loaded (so that every `kernel[grid](...)` reaches the executor and is counted), and what it observed while the kernels
ran. One process serves one executor: Triton's interpreter must be chosen before Triton is imported.
"""

from __future__ import annotations

import abc
import contextlib
import functools
import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from harness.code_lines import CodeLine, chain_in_words
from harness.kernels.executors.transfers import Transfers
from harness.refusal import Refusal

if TYPE_CHECKING:
    import numpy as np
    import torch

    from harness.accesses import RecordedLaunch


class DeviceFault(Exception):
    """A kernel broke the device, and with it this process: every later call fails."""


class ExecutorCannot(Exception):
    """The executor is unable to run this kernel or case: a skip (`executor-cannot`), never a pass."""


class KernelDoesNotCompile(Refusal):
    """A kernel of the target is not valid Triton: no case can be judged. The message is one line."""


@dataclass(frozen=True)
class AccessSpan:
    """Bytes `[start, start + size)` of the arena (offsets, not addresses) that kernels may touch.

    `name` describes what lies there in terms of the domain, `kind` is the kind of object as used in signatures.
    Kernels may only read spans that are not `writable`.
    """

    start: int
    size: int
    kind: str
    name: str
    writable: bool = True


class AllowedSpans(Sequence[AccessSpan]):
    """What kernels may touch in one call: `fixed`, the same tuple in every call, and then `more`.

    An executor may keep what it has computed from `fixed`.
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
    """One access that a checking executor saw and suppressed, or a use of an uninitialised value.

    `violation` is `out-of-bounds`, `misaligned` or `read-only` (a store to what no kernel may write); then `offset` is
    the arena offset of the access's first byte. Or it is `undefined-address` or `undefined-branch` (a mask, a
    condition, the bound of a loop); then `offset` is where the uninitialised value was read. `line` of `file` is the
    kernel's source line, `source` its function, `program` the grid indices, `lane` the lane. `callers` are the lines of
    the calls that lead there inside the kernel, `launched` those of the host code that launched it, innermost first;
    the latter only if the executor was to trace launches.
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
    callers: tuple[CodeLine, ...] = ()
    launched: tuple[CodeLine, ...] = ()

    @property
    def where(self) -> str:
        """Text that says what made the access."""
        return f"{self.line_of_kernel}, program {self.program}, lane {self.lane}"

    @property
    def line_of_kernel(self) -> str:
        """The same without the program and its lane: the kernel, the line, and the calls that lead there."""
        return f"{self.kernel}, {chain_in_words(self.code) or 'a line that is not known'}"

    @property
    def code(self) -> tuple[CodeLine, ...]:
        """The line of the access and those of the calls that lead to it, innermost first; empty if unknown."""
        return (CodeLine(self.file, self.source, self.line), *self.callers) if self.file else ()


class Arena(abc.ABC):
    """Device memory of one case: `size` bytes, addressed by offset.

    Its base is aligned to at least 256 bytes, so the alignment of an offset is that of its address.
    """

    size: int
    address: int

    @abc.abstractmethod
    def write(self, offset: int, data: np.ndarray) -> None:
        """Copy bytes (uint8, one dimension) into the arena."""

    @abc.abstractmethod
    def read(self, offset: int, size: int) -> np.ndarray:
        """Bytes of the arena, after all launches so far have finished. May be a view: do not keep it."""

    def write_all(self, spans: Sequence[tuple[int, int]], data: np.ndarray) -> None:
        """Copy bytes into several spans `(offset, size)`; `data` holds the bytes of the spans one after another."""
        place = 0
        for offset, size in spans:
            self.write(offset, data[place : place + size])
            place += size

    def read_all(self, spans: Sequence[tuple[int, int]]) -> np.ndarray:
        """A copy of the bytes of several spans `(offset, size)`, one after another, with a single wait."""
        import numpy as np

        return np.concatenate([self.read(offset, size) for offset, size in spans])

    @abc.abstractmethod
    def tensor(
        self, offset: int, size: int, dtype: torch.dtype, shape: Sequence[int], strides: Sequence[int]
    ) -> torch.Tensor:
        """A tensor over bytes `[offset, offset + size)`, which are its whole storage. Strides in elements."""

    def discard(self, offset: int, size: int) -> None:  # noqa: B027 - most memory has nothing to give back
        """Declare that these bytes are no longer needed; their contents are undefined afterwards."""


OrderChoice = Literal["chosen", "natural", "any"]

ProgramOrder = Literal["natural", "reversed"] | tuple[Literal["shuffled"], int]


class Executor(abc.ABC):
    """Runs kernels. `launches` counts them since the last `begin`.

    `program_order` is the order in which the programs of a launch run; executors that cannot choose ignore it.
    """

    name: ClassVar[str]
    instrumented: ClassVar[bool] = False
    """Whether it supports the checks that cases ask for."""
    order: ClassVar[OrderChoice] = "any"
    """In which order programs and warps run: as a case says (addresses are then as it says, too), one program after the
    other, or as the device likes."""
    imports: ClassVar[str] = "triton"
    """The module that imports everything the executor runs kernels with."""
    device: torch.device
    launches: int = 0
    program_order: ProgramOrder = "natural"
    interleave: int = 0
    """Number of programs in flight at a time, switching between them before each load and store; 0: one after another.
    Executors that cannot choose ignore it."""
    warps_apart: bool = False
    """Whether the warps of a program run independently, where the executor supports that."""
    schedule_seed: int = 0
    """The seed of the schedules of interleaved launches."""
    trace_launches: bool = False
    """Whether to note which lines of host code launched a kernel, where the executor supports that."""
    on_launch: Callable[[], None] | None = None
    """Called before each launch by executors that keep shadows: bytes that host code has written since are defined."""

    @functools.cached_property
    def transfers(self) -> Transfers:
        """Asynchronous copies to the device. Executors that run kernels at once finish them before each kernel."""
        return Transfers()

    @classmethod
    def create(cls, checks: Collection[str] | None = None) -> Executor:
        """A new executor that performs at most `checks` (None: all that it supports).

        Raises RuntimeError if it cannot run here.
        """
        return cls()

    @classmethod
    @abc.abstractmethod
    def unavailable(cls) -> str | None:
        """Why this machine cannot run the executor, in one sentence; None if it can."""

    @abc.abstractmethod
    def allocate(self, size: int) -> Arena:
        """A new arena of at least `size` bytes. Raises ExecutorCannot if the device has no room."""

    @abc.abstractmethod
    def jit(self, function: Callable[..., Any], **options: Any) -> Any:
        """The result of `triton.jit(function, **options)` while a target's modules are being loaded."""

    def begin(self, arena: Arena, spans: Sequence[AccessSpan]) -> None:
        """Start watching: forget launches and faults; from now on kernels may touch `spans` of `arena`."""
        self.launches = 0

    def raise_addresses(self, arena: Arena, raised: bool) -> None:  # noqa: B027 - a GPU's addresses are what they are
        """Set whether kernels and host code see addresses of `arena` with the highest bit set. Tensors made before keep
        their addresses."""

    def watch(self, checks: Collection[str]) -> None:  # noqa: B027 - most executors watch nothing
        """Choose the checks from now on, among those that the executor was made with."""

    def is_device_fault(self, error: BaseException) -> bool:
        """Whether the device is lost for this process, which an exception may be due to."""
        return False

    def settle(self) -> None:  # noqa: B027 - what a CPU has run is over
        """Wait for everything that was started, so that a fault is one of the case that caused it. Raises what the
        device says if there was one."""

    def faults(self) -> Sequence[AccessFault]:
        """Accesses outside the spans since `begin`. Only checking executors report any."""
        return ()

    @property
    def can_record(self) -> bool:
        """Whether it can be asked for races, and so knows what each launch loaded and stored."""
        return False

    def recorded(self) -> Sequence[RecordedLaunch]:
        """What each launch since `begin` loaded and stored. Only executors that watch for races know it."""
        return ()

    def shadow(self, arena: Arena) -> Arena | None:
        """Memory that holds 255 for each byte of `arena` that is undefined and 0 for all others, updated by kernels.

        Only executors that watch for uninitialised values have one.
        """
        return None

    def executed_lines(self) -> Collection[tuple[str, str, int]]:
        """Kernel lines that have run so far, as (file, function, line). Only some executors know them."""
        return ()

    def known_lines(self) -> Collection[tuple[str, str, int]]:
        """All lines of the kernels launched so far: the upper bound of `executed_lines`."""
        return ()

    def forget_lines(self) -> None:
        """Start `executed_lines` anew."""
        return

    def add_lines(self, lines: Collection[tuple[str, str, int]]) -> None:
        """Count `lines` among `executed_lines`: they ran before those were forgotten."""
        return

    def under_way(self, seconds: float) -> tuple[str, Sequence[tuple[str, str, int]]] | None:
        """The kernel that is running, and which of its lines it runs during the next `seconds`, as far as that is
        known; None if no kernel runs. Call it from another thread than the one that launches."""
        return None


@contextlib.contextmanager
def dispatching(executor: Executor) -> Iterator[None]:
    """Within this context, `triton.jit` makes kernels whose launches reach `executor`."""
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

"""The native executor compiles kernels for the CPU and watches every access.

It needs no GPU, runs a kernel thousands of times faster than Triton's interpreter, and reports which access of which
line left the memory that it may touch. Programs run one after another in a chosen order.
"""

from __future__ import annotations

import importlib
import os
import struct
import sys
import threading
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from harness.kernels.cache_directory import cache_directory
from harness.kernels.executors.base import (
    AccessFault,
    AccessSpan,
    Arena,
    Executor,
    ExecutorCannot,
    OrderChoice,
    ProgramOrder,
)
from harness.kernels.executors.native.host_lines import host_lines
from harness.kernels.executors.native.program_order import check_order, program_ids
from harness.kernels.executors.requirements import unmet

# Processes that run no kernel ask whether this executor is available: they need no torch, which takes seconds.
if TYPE_CHECKING:
    from harness.accesses import RecordedLaunch
    from harness.kernels.executors.host_memory import HostArena
    from harness.kernels.executors.native.emit import EmitOptions
    from harness.kernels.executors.native.kernel import NativeKernel
    from harness.kernels.executors.native.source_lines import SourceLine
    from harness.kernels.executors.native.variant import KernelVariant

VARIANT_LIMIT = 512
"""Maximum number of variants in memory. Beyond it, all are dropped; those still used are read from the disk cache."""


class NativeExecutor(Executor):
    """Runs kernels compiled for the CPU.

    `checks`: test every access against the spans given to `begin`; without, an out-of-bounds access takes effect.
    `undefined`: track undefined bytes, which requires `checks`. `races`: record every access, for the race
    oracle. `lines`: record which kernel lines run (default: with checks). Of the first three, `watch` may choose fewer.
    `program_order`: see the module of that name.
    `cache`: where compiled variants are kept; None for nowhere, by default in the harness's cache directory.
    """

    name: ClassVar[str] = "native"
    instrumented: ClassVar[bool] = True
    order: ClassVar[OrderChoice] = "chosen"
    imports: ClassVar[str] = "harness.kernels.executors.native.kernel"

    def __init__(
        self,
        *,
        checks: bool = True,
        lines: bool | None = None,
        undefined: bool = False,
        races: bool = False,
        program_order: ProgramOrder = "natural",
        cache: Path | str | None = "",
    ) -> None:
        import torch

        from harness.kernels.executors.host_memory import HostArena
        from harness.kernels.executors.native.cache import VariantCache
        from harness.kernels.executors.native.emit import EmitOptions
        from harness.kernels.executors.native.recording import Recorder
        from harness.kernels.executors.native.runtime import Watch

        self.device = torch.device("cpu")
        self._new_arena: type[HostArena] = HostArena
        self.program_order = check_order(program_order)
        lines = checks if lines is None else lines
        self._most = EmitOptions(checks=checks, lines=lines, undefined=undefined and checks, record=races)
        self.options = self._most
        """The checks from now on."""
        directory = cache_directory() / "native" if cache == "" else cache
        self._cache = VariantCache(Path(directory) if directory is not None else None)
        self._watch = Watch()
        self._recorder = Recorder(self._watch.record) if races else None
        self._recorded: list[RecordedLaunch] = []
        self._arena: Arena | None = None
        self._shadows: weakref.WeakKeyDictionary[Arena, Arena] = weakref.WeakKeyDictionary()
        self._epoch = 0
        # Not a set: hashing a Triton kernel reads everything that it calls, which may not exist yet.
        self._kernels: list[weakref.ref[NativeKernel]] = []
        self._loaded: list[KernelVariant] = []
        self._executed: set[SourceLine] = set()
        self._known: set[SourceLine] = set()
        self._running: KernelVariant | None = None
        self._lock = threading.Lock()

    @classmethod
    def create(cls, checks: Collection[str] | None = None) -> NativeExecutor:
        importlib.import_module(cls.imports)  # a failing import is noticed now, not by the first kernel
        if checks is None:
            return cls(undefined=True, races=True)
        return cls(checks="memory" in checks, undefined="undefined" in checks, races="races" in checks)

    @classmethod
    def unavailable(cls) -> str | None:
        if sys.byteorder != "little" or struct.calcsize("P") != 8:
            return "the native executor needs a little-endian 64-bit processor"
        reason = unmet("torch", "triton", "llvmlite", "numpy")
        if reason is not None:
            return reason
        if os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "yes", "on"):
            return "Triton's interpreter is active in this process (TRITON_INTERPRET), which rules out compiling"
        return None

    def allocate(self, size: int) -> Arena:
        return self._new_arena(size)

    def jit(self, function: Callable[..., Any], **options: Any) -> Any:
        from harness.kernels.executors.native.kernel import NativeKernel

        kernel = NativeKernel(self, function, **options)
        self._kernels.append(weakref.ref(kernel))
        return kernel

    def raise_addresses(self, arena: Arena, raised: bool) -> None:
        assert isinstance(arena, self._new_arena)
        arena.raise_addresses(raised)

    def watch(self, checks: Collection[str]) -> None:
        most = self._most
        memory = most.checks and "memory" in checks
        self.options = replace(
            most,
            checks=memory,
            lines=most.lines and (memory or not most.checks),
            undefined=most.undefined and memory and "undefined" in checks,
            record=most.record and "races" in checks,
        )

    def begin(self, arena: Arena, spans: Sequence[AccessSpan]) -> None:
        super().begin(arena, spans)
        self._arena = arena
        self._epoch += 1
        shadow = self.shadow(arena)
        hidden = arena.raised_by if isinstance(arena, self._new_arena) else 0
        self._watch.begin(arena.address, spans, hidden=hidden, shadows=0 if shadow is None else shadow.address)
        self._recorded = []

    def shadow(self, arena: Arena) -> Arena | None:
        if not self.options.undefined:
            return None
        if arena not in self._shadows:
            self._shadows[arena] = self._new_arena(arena.size)
        return self._shadows[arena]

    def recorded(self) -> Sequence[RecordedLaunch]:
        return self._recorded

    @property
    def can_record(self) -> bool:
        return self._most.record

    def faults(self) -> tuple[AccessFault, ...]:
        return self._watch.faults()

    @property
    def fault_count(self) -> int:
        """Faults since `begin`, including those that are no longer kept."""
        return self._watch.count

    def executed_lines(self) -> set[SourceLine]:
        """Kernel lines that have run since `forget_lines`, as (file, function, line).

        A line counts if any of it ran; for a masked load, if some program reached it. Constants have no line.
        """
        return self._executed.union(*(variant.executed_lines() for variant in self._loaded))

    def known_lines(self) -> set[SourceLine]:
        """All lines of the variants launched so far: the upper bound of `executed_lines`."""
        return self._known.union(*(variant.all_lines() for variant in self._loaded))

    def under_way(self, seconds: float) -> tuple[str, Sequence[SourceLine]] | None:
        variant = self._running
        return None if variant is None else (variant.name, sorted(variant.lines_during(seconds)))

    def forget_lines(self) -> None:
        """Start `executed_lines` anew."""
        self._executed = set()
        for variant in self._loaded:
            variant.forget_lines()

    def add_lines(self, lines: Collection[tuple[str, str, int]]) -> None:
        """Count `lines` among `executed_lines`: they ran before those were forgotten."""
        from harness.kernels.executors.native.source_lines import SourceLine

        self._executed |= {SourceLine(*line) for line in lines}

    def compiled_in(self, num_warps: int) -> EmitOptions:
        """What is compiled in for `num_warps` warps from now on. Raises ExecutorCannot for too many warps."""
        from harness.kernels.executors.native.interleaving_ir import MOST_WARPS

        if not self.warps_apart:
            return replace(self.options, interleave=True) if self.interleave > 1 else self.options
        if num_warps > MOST_WARPS:
            raise ExecutorCannot(f"the native executor interleaves at most {MOST_WARPS} warps, not {num_warps}")
        return replace(self.options, interleave=True, warps=num_warps)

    def load(
        self, kernel: Any, signature: Mapping[str, str], constants: Mapping[str, Any], num_warps: int
    ) -> KernelVariant:
        """Compile a variant of a kernel made by `jit`, or find it in the cache."""
        from harness.kernels.executors.native.variant import load_variant

        if len(self._loaded) >= VARIANT_LIMIT:
            self._drop_variants()
        options = self.compiled_in(num_warps)
        variant = load_variant(kernel, signature, constants, options, self._cache, num_warps)
        self._loaded.append(variant)
        return variant

    def launch(self, variant: KernelVariant, grid: tuple[int, int, int], arguments: list[int]) -> None:
        """Run a variant over a grid; as in Triton, nothing is launched over an empty grid.

        Raises RuntimeError if accesses are checked and `begin` has not set which are allowed.
        """
        programs = grid[0] * grid[1] * grid[2]
        if programs == 0:
            return
        if self._arena is None and variant.options.checks:
            raise RuntimeError("the native executor checks accesses: call begin(arena, spans) before a launch")
        self.transfers.finish()
        if self.on_launch is not None:
            self.on_launch()
        launched = host_lines(sys._getframe(1)) if self.trace_launches else ()
        with self._lock:
            if variant.epoch != self._epoch:
                variant.forget_spans()
                variant.epoch = self._epoch
            if variant.options.interleave:
                self._watch.schedule(max(1, self.interleave), f"{self.schedule_seed}/{self.launches}")
            order = program_ids(self.program_order, self.launches, programs)
            address = 0 if order is None else int(order.ctypes.data)
            recorder = self._recorder if variant.options.record else None
            if recorder is not None:
                recorder.begin()
            self._running = variant
            count = variant.launch(grid, address, self._watch.address, arguments)
            self._running = None
            if recorder is not None and self._arena is not None:
                self._recorded.append(recorder.launch(variant, grid, self._arena.address, launched))
            self.launches += 1
            if count != self._watch.count:
                self._watch.collect(count, variant.name, variant.sites, grid, launched)

    def _drop_variants(self) -> None:
        self._executed = self.executed_lines()
        self._known = self.known_lines()
        for reference in self._kernels:
            kernel = reference()
            if kernel is not None:
                kernel.variants.clear()
        self._loaded = []

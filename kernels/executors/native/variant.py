"""A variant is a kernel compiled for given compile-time constants and argument types, ready to be launched."""

from __future__ import annotations

import functools
import hashlib
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import llvmlite
import numpy as np
import triton

from harness.accesses import AccessSource, AccessSources, Threads
from harness.kernels.executors.native import jit
from harness.kernels.executors.native.abi import ARGUMENTS
from harness.kernels.executors.native.cache import CompiledVariant, VariantCache
from harness.kernels.executors.native.emit import EmitOptions, emit
from harness.kernels.executors.native.frontend import Translation, translate
from harness.kernels.executors.native.source_lines import SourceLine
from harness.kernels.executors.native.ttir import parse
from harness.kernels.executors.native.warps import owners_of, phases_of

TRANSLATIONS_KEPT = 64
"""Maximum number of translations in memory, the latest used ones; one is up to half a megabyte of text."""

_translations: dict[Any, Translation] = {}


class KernelVariant:
    """Compiled code in this process with the arrays that it writes to. `name` is the kernel's, `options` what is
    compiled in."""

    def __init__(
        self,
        name: str,
        compiled: CompiledVariant,
        options: EmitOptions,
        threads: Callable[[], Sequence[Threads]] | None = None,
    ) -> None:
        """`threads` gives the threads that run each site; None where they are not needed."""
        self.name = name
        self.options = options
        self.sites = compiled.sites
        known = functools.cache(threads or tuple)
        self.sources = AccessSources(
            AccessSource(
                name,
                site.line.file if site.line else "",
                site.line.function if site.line else "",
                site.line.line if site.line else 0,
                site.is_store,
                site.width,
                lambda number=number: known()[number],  # type: ignore[misc]
                site.order,
                site.callers,
            )
            for number, site in enumerate(compiled.sites if threads is not None else ())
        )
        """The sites as a record of accesses names them; empty without a record."""
        self.epoch = -1
        """The `begin` that the span cache belongs to."""
        self._blocks = compiled.blocks
        self._code = jit.LoadedCode(compiled.object)
        self.run = self._code.run
        self._layout = struct.Struct(f"{ARGUMENTS + compiled.arguments}Q")
        self._record = bytearray(self._layout.size)
        self._record_view = np.frombuffer(self._record, dtype=np.uint8)
        self._record_address = int(self._record_view.ctypes.data)
        self._spans = np.zeros(2 * max(1, len(compiled.sites)), dtype=np.uint64)
        self._lines = np.zeros(max(1, len(compiled.blocks)), dtype=np.uint8)
        self._arrays = (int(self._spans.ctypes.data), int(self._lines.ctypes.data))

    def launch(self, grid: tuple[int, int, int], order: int, watch: int, arguments: list[int]) -> int:
        """Run all programs; returns the watch record's fault count afterwards. `arguments` are 64-bit words."""
        x, y, z = grid
        self._layout.pack_into(self._record, 0, x, y, z, x * y * z, order, watch, *self._arrays, *arguments)
        count: int = self.run(self._record_address)
        return count

    def forget_spans(self) -> None:
        """Empty the span cache: the spans have changed."""
        self._spans.fill(0)

    def executed_lines(self) -> set[SourceLine]:
        """Lines of the blocks that have run."""
        return {line for block in np.flatnonzero(self._lines) for line in self._block(int(block))}

    def lines_during(self, seconds: float) -> set[SourceLine]:
        """Lines of the blocks that run during the next `seconds`, while another thread launches this."""
        before = self._lines.copy()
        self._lines.fill(0)
        time.sleep(seconds)
        now = self.executed_lines()
        self._lines |= before
        return now

    def all_lines(self) -> set[SourceLine]:
        """Lines of all recorded blocks."""
        return {line for block in self._blocks for line in block}

    def forget_lines(self) -> None:
        """Mark all lines as not executed."""
        self._lines.fill(0)

    def _block(self, number: int) -> tuple[SourceLine, ...]:
        return self._blocks[number] if number < len(self._blocks) else ()


def load_variant(
    kernel: Any,
    signature: Mapping[str, str],
    constants: Mapping[str, Any],
    options: EmitOptions,
    cache: VariantCache,
    num_warps: int,
) -> KernelVariant:
    """The variant, from the disk cache if it is there. Raises ExecutorCannot for what cannot be compiled."""
    name = kernel.fn.__name__
    warps = num_warps if options.record or options.warps else None
    key = cache.key(
        (
            # Triton's key covers the source of the kernel and of everything it calls, with their lines and globals.
            kernel.cache_key,
            kernel.fn.__code__.co_filename,
            tuple(signature.items()),
            tuple((parameter, _spelled(value)) for parameter, value in constants.items()),
            options,
            warps,
            _own_digest(),
            triton.__version__,
            llvmlite.__version__,
            sys.byteorder,
            jit.host(),
        )
    )
    compiled = cache.read(key)
    if compiled is None:
        apart = options.warps > 1
        translation = _translated(kernel, signature, constants, warps, layouts=apart)
        function = parse(translation.ttir)
        emitted = emit(function, options)
        owners: list[bytes] = []
        phases: list[int] = []
        if apart:
            owners = owners_of(emitted.sites, translation.ttgir, options.warps)
            phases = phases_of(emitted.sites, translation.ttgir)
            emitted = emit(function, options, owners, phases)
        compiled = CompiledVariant(
            jit.compile_object(emitted.llvm, verify=True, coroutines=options.interleave),
            len(function.arguments),
            emitted.sites,
            emitted.blocks,
            tuple(owners),
            tuple(phases),
        )
        cache.write(key, compiled)

    def threads() -> Sequence[Threads]:
        owners, phases = compiled.owners, compiled.phases
        if len(owners) < len(compiled.sites):
            ttgir = _translated(kernel, signature, constants, num_warps, layouts=True).ttgir
            owners = tuple(owners_of(compiled.sites, ttgir, num_warps))
            phases = tuple(phases_of(compiled.sites, ttgir))
            cache.write(key, replace(compiled, owners=owners, phases=phases))
        return [
            Threads(np.frombuffer(warps, dtype=np.uint8), phase) for warps, phase in zip(owners, phases, strict=True)
        ]

    return KernelVariant(name, compiled, options, threads if options.record else None)


def _translated(
    kernel: Any, signature: Mapping[str, str], constants: Mapping[str, Any], warps: int | None, *, layouts: bool
) -> Translation:
    """The translation, kept for a while: the checks differ from case to case, but the text does not."""
    spelled = tuple((parameter, _spelled(value)) for parameter, value in constants.items())
    key = (kernel.cache_key, kernel.fn.__code__.co_filename, tuple(signature.items()), spelled, warps, layouts)
    known = _translations.pop(key, None)
    _translations[key] = found = known or translate(kernel, signature, constants, warps, layouts=layouts)
    if len(_translations) > TRANSLATIONS_KEPT:
        del _translations[next(iter(_translations))]
    return found


@functools.cache
def _own_digest() -> str:
    return digest_of(Path(__file__).parent)


def digest_of(folder: Path) -> str:
    """A digest of the source in this package, its LLVM files included: code compiled with other source must not be
    used."""
    digest = hashlib.sha256()
    for path in sorted((*folder.glob("*.py"), *folder.glob("llvm/*.ll"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _spelled(value: Any) -> tuple[str, str]:
    """A constant for a cache key: functions by their source, anything else by type and value."""
    if hasattr(value, "cache_key"):
        return ("function", value.cache_key)
    return (type(value).__name__, repr(value))

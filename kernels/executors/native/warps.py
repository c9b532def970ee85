"""A warp map gives the warp of a program that owns each lane of an access, read from Triton's own layouts.

Triton decides how the lanes of a tensor are distributed to a GPU's threads when it turns TTIR into TTGIR, its
representation with layouts, which needs no GPU. Where a tensor has fewer elements than the program has threads, or a
dimension less than its threads, several threads hold the same lane; the first of them owns it. Where TTGIR has no
layout, each lane is a thread.

Where a tensor changes to another layout whose lanes belong to other warps, it goes through shared memory, and all warps
wait for each other: a barrier that TTIR does not show. Accesses have a phase, the number of such changes before them in
the kernel's body; changes inside loops and branches, which may not happen, do not count.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.kernels.executors.native.accesses import AccessSite
from harness.kernels.executors.native.source_lines import LocationTable, SourceLine
from harness.kernels.executors.native.spelling import split_location

WARP_THREADS = 32

_ALIAS = re.compile(r"(#[\w.]+) = (#ttg\..*)")
_ACCESS = re.compile(r"(?:%\S+ = )?tt\.(load|store) .* : tensor<((?:\d+x)+)!tt\.ptr<[^>]*>, (.*)>")
_CONVERT = re.compile(r"%\S+ = ttg\.convert_layout .* : tensor<((?:\d+x)+)[^,]*, (.*)> -> tensor<(?:\d+x)+[^,]*, (.*)>")
_BODY_DEPTH = 2
_SLICE = re.compile(r"#ttg\.slice<\{dim = (\d+), parent = (.*)\}>")
_BLOCKED = re.compile(r"#ttg\.blocked<\{(.*)\}>")
_LINEAR = re.compile(r"#ttg\.linear<\{(.*)\}>")
_LIST = re.compile(r"(\w+) = (\[[\[\], \d]*\])")


@dataclass(frozen=True)
class _Access:
    is_store: bool
    line: SourceLine | None
    shape: tuple[int, ...]
    owners: bytes | None
    phase: int


UNKNOWN_PHASE = -1


def phases_of(sites: Sequence[AccessSite], ttgir: str | None) -> list[int]:
    """The phase of each site; UNKNOWN_PHASE for scalars, and where TTGIR does not have the same accesses in order."""
    found = _accesses(ttgir) if ttgir is not None else []
    tensors = [(site.is_store, site.line, site.shape) for site in sites if site.shape]
    if tensors != [(access.is_store, access.line, access.shape) for access in found]:
        return [UNKNOWN_PHASE] * len(sites)
    phases = iter(found)
    return [next(phases).phase if site.shape else UNKNOWN_PHASE for site in sites]


def owners_of(sites: Sequence[AccessSite], ttgir: str | None, num_warps: int) -> list[bytes]:
    """For each site, one byte for each lane: the warp that owns it. Scalars belong to warp 0: one byte."""
    found = _accesses(ttgir) if ttgir is not None else []
    tensors = [site for site in sites if site.shape]
    keys = [(site.is_store, site.line, site.shape) for site in tensors]
    in_order = keys == [(access.is_store, access.line, access.shape) for access in found]
    by_key: dict[object, set[bytes | None]] = {}
    for access in found:
        by_key.setdefault((access.is_store, access.line, access.shape), set()).add(access.owners)
    maps: list[bytes] = []
    number = 0
    for site in sites:
        if not site.shape:
            maps.append(b"\0")
            continue
        owners: bytes | None = None
        if in_order:
            owners = found[number].owners
        elif len(candidates := by_key.get((site.is_store, site.line, site.shape), set())) == 1:
            (owners,) = candidates
        maps.append(owners if owners is not None else thread_each(site.shape, num_warps))
        number += 1
    return maps


def thread_each(shape: tuple[int, ...], num_warps: int) -> bytes:
    """One element for each thread, starting again after the last thread."""
    lanes = int(np.prod(shape))
    return (np.arange(lanes) // WARP_THREADS % num_warps).astype(np.uint8).tobytes()


def _accesses(ttgir: str) -> list[_Access]:
    """The loads and stores of tensors in a TTGIR text, in its order."""
    lines = [line.strip() for line in ttgir.splitlines()]
    locations = LocationTable([line for line in lines if line.startswith("#loc")])
    layouts = {match[1]: match[2] for line in lines if (match := _ALIAS.fullmatch(line))}
    found = []
    depth = phase = 0
    for text in lines:
        if "ttg.convert_layout" in text:
            # The module, the function: no deeper.
            phase += depth == _BODY_DEPTH and _is_barrier(split_location(text).text, layouts)
        if not text.startswith("#"):
            depth += text.count("{") - text.count("}")
        if "tt.load" not in text and "tt.store" not in text:
            continue
        line = split_location(text)
        if match := _ACCESS.fullmatch(line.text):
            shape = tuple(int(size) for size in match[2].rstrip("x").split("x"))
            source = locations.line(line.location) if line.location else None
            found.append(_Access(match[1] == "store", source, shape, _owners(match[3], layouts, shape), phase))
    return found


def _is_barrier(text: str, layouts: dict[str, str]) -> bool:
    """Whether a change of layout moves lanes from warp to warp."""
    match = _CONVERT.fullmatch(text)
    if match is None:
        return False
    shape = tuple(int(size) for size in match[1].rstrip("x").split("x"))
    before, after = (_owners(layout, layouts, shape) for layout in (match[2], match[3]))
    return before is not None and after is not None and before != after


def _owners(layout: str, layouts: dict[str, str], shape: tuple[int, ...]) -> bytes | None:
    """The owner of each lane in row-major order; None for a layout that is not understood."""
    warps = _warps(layout, layouts, shape)
    return None if warps is None else warps.astype(np.uint8).tobytes()


def _warps(layout: str, layouts: dict[str, str], shape: tuple[int, ...]) -> np.ndarray | None:
    text = layouts.get(layout, layout)
    if match := _SLICE.fullmatch(text):
        dimension = int(match[1])
        parent = _warps(match[2], layouts, (*shape[:dimension], 1, *shape[dimension:]))
        return None if parent is None else parent.reshape(shape)
    if match := _BLOCKED.fullmatch(text):
        return _blocked(_lists(match[1]), shape)
    if match := _LINEAR.fullmatch(text):
        return _linear(_lists(match[1]), shape)
    return None


def _lists(text: str) -> dict[str, list[object]]:
    return {name: _numbers(value) for name, value in _LIST.findall(text)}


def _numbers(text: str) -> list[object]:
    """A list of integers or of lists of integers, as TTGIR writes it."""
    if "[" in text[1:]:
        inner = re.findall(r"\[([\d, ]*)\]", text[1:-1])
        return [[int(number) for number in part.split(",") if number.strip()] for part in inner]
    return [int(number) for number in text[1:-1].split(",") if number.strip()]


def _blocked(lists: dict[str, list[object]], shape: tuple[int, ...]) -> np.ndarray:
    """`sizePerThread` elements per thread, `threadsPerWarp` threads per warp, in each dimension, then repeated."""
    per_thread, threads, warps, order = (
        [int(str(number)) for number in lists[name]]
        for name in ("sizePerThread", "threadsPerWarp", "warpsPerCTA", "order")
    )
    owner = np.zeros(shape, dtype=np.int64)
    scale = 1
    for dimension in order:  # the fastest first
        place = np.arange(shape[dimension]) // (per_thread[dimension] * threads[dimension]) % warps[dimension]
        extended = [1] * len(shape)
        extended[dimension] = shape[dimension]
        owner = owner + scale * place.reshape(extended)
        scale *= warps[dimension]
    return owner


def _linear(lists: dict[str, list[object]], shape: tuple[int, ...]) -> np.ndarray | None:
    """A layout given by the coordinates that each bit of register, lane and warp contributes, combined by xor."""
    owner = np.full(shape, 255, dtype=np.int64)
    inner = [basis for name in ("register", "lane") for basis in lists.get(name, [])]
    outer = lists.get("warp", [])
    if len(inner) + len(outer) > 20:
        return None
    for number in range(1 << len(outer)):
        bases = [basis for bit, basis in enumerate(outer) if number >> bit & 1]
        start = np.zeros(len(shape), dtype=np.int64)
        for basis in bases:
            start ^= np.array(basis)
        for chosen in itertools.product((False, True), repeat=len(inner)):
            place = start.copy()
            for basis, taken in zip(inner, chosen, strict=True):
                if taken:
                    place ^= np.array(basis)
            at = tuple(int(position) for position in place)
            if any(position >= size for position, size in zip(at, shape, strict=True)):
                return None  # larger than its tensor
            owner[at] = min(owner[at], number)
    return owner

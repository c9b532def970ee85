"""The runtime is what compiled code needs besides the kernel: the loop over programs and the search for a span.

It is LLVM IR (the files in llvm/), compiled with each variant, so that a user's machine needs no C compiler.
"""

from __future__ import annotations

from harness.kernels.executors.native import abi, interleaving_ir
from harness.kernels.executors.native.llvm_files import llvm_text


def module(program: str, *, checks: bool, record: bool, undefined: bool, warps: int | None) -> str:
    """A whole module around the function `program`; `run` in it is the entry point.

    `warps`: the number of independent warps of each program, 1 if the program runs as a whole; None if programs run one
    after another.
    """
    parts = [
        llvm_text("header"),
        llvm_text("fault"),
        llvm_text("run") if warps is None else interleaving_ir.run(warps),
        llvm_text("check" if checks else "no_check"),
        llvm_text("move"),
    ]
    if record:
        parts += [llvm_text("record"), llvm_text("record_owned" if warps is not None and warps > 1 else "record_all")]
    if undefined:
        parts.append(llvm_text("shadows"))
    return "\n".join([*(_filled(part, record, undefined) for part in parts), program])


def _filled(text: str, record: bool, undefined: bool) -> str:
    """`text` with `$NAME$` replaced by the byte offset of that word of a record; lines that begin with `;record ` or
    `;undefined ` stay comments unless that is wanted."""
    if record:
        text = text.replace(";record ", "")
    if undefined:
        text = text.replace(";undefined ", "")
    for name, word in _OFFSETS:
        text = text.replace(f"${name}$", str(abi.WORD * word))
    return text


_OFFSETS = [
    (name, getattr(abi, name))
    for name in [
        "GRID",
        "PROGRAMS",
        "ORDER",
        "WATCH",
        "SPAN_COUNT",
        "SPAN_STARTS",
        "SPAN_SIZES",
        "SPANS_WRITABLE",
        "FAULT_COUNT",
        "FAULT_CAPACITY",
        "FAULTS",
        "SPAN_CACHE",
        "FAULT_SITE",
        "FAULT_ADDRESS",
        "FAULT_LANE",
        "FAULT_PROGRAM",
        "FAULT_KIND",
        "FAULT_WORDS",
        "RECORD_COUNT",
        "RECORD_CAPACITY",
        "RECORDS",
        "STORED_SIZE",
        "STORED_CAPACITY",
        "STORED",
        "ACCESS_SITE",
        "ACCESS_PROGRAM",
        "ACCESS_EPOCH",
        "ACCESS_ADDRESS",
        "ACCESS_LANE",
        "ACCESS_COUNT",
        "ACCESS_STORED",
        "ACCESS_WORDS",
        "SHADOWS",
        "ORIGIN",
        "HIDDEN",
        "LIVE",
        "SEED",
        "FRAMES",
        "FRAME",
        "WARP",
    ]
]

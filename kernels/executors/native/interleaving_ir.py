"""The part of the runtime that runs several programs of a launch at a time, as LLVM IR; see runtime_ir.

A program is then a coroutine that yields before each load and store of the kernel's source. A seed determines which one
continues, so that a schedule can be replayed. `LIVE` programs are in flight, each with its own frame; when one is done,
the next one of the launch's order takes its place.

The warps of a program may be separate coroutines. Each then runs the whole program, loads what it needs, and stores
only those lanes that it owns; at a barrier it yields until all warps have arrived at one. As with CUDA's `bar.sync`, it
need not be the same barrier of the kernel's text, and a warp that has ended is not waited for: warps that disagree, as
those of a kernel with a race may, pass different numbers of barriers, and their program still ends.
"""

from __future__ import annotations

import llvmlite.binding as llvm

from harness.kernels.executors.native.llvm_files import llvm_text

FRAME_BYTES = 4 << 20
"""Maximum bytes of one program's frame: everything that it would otherwise keep on the stack."""
MOST_LIVE = 16
"""Maximum number of programs in flight at a time."""
MOST_WARPS = 32
"""Maximum number of warps of one program."""

GATE_VALUE, GATE_SHADOW = 3, 4
"""Words of a program's gate (llvm/gate.ll): the old value of an atomic access, and its shadow."""

END = "i1" if llvm.llvm_version_info[0] < 22 else "void"
"""What the end of a coroutine returns to LLVM of this version."""

BEGIN = llvm_text("coroutine_begin").rstrip("\n")
"""How the function of a program begins."""

FINISH = f"""\
  br label %coro.final
coro.final:
  %coro.last = call i8 @llvm.coro.suspend(token none, i1 true)
  switch i8 %coro.last, label %coro.suspend [i8 1, label %coro.suspend]
coro.suspend:
  {"%coro.end = " if END == "i1" else ""}call {END} @llvm.coro.end(ptr null, i1 false, token none)
  ret ptr %coro.handle"""


def run(warps: int) -> str:
    """The loop over programs with `warps` independent warps each; 1: all warps together."""
    text = llvm_text("coroutines") + llvm_text("gate") + llvm_text("run_interleaved")
    for name, number in (
        ("UNITS", MOST_LIVE * warps),
        ("UNIT_BYTES", 8 * MOST_LIVE * warps),
        ("PLACES", MOST_LIVE),
        ("PLACE_BYTES", 8 * MOST_LIVE),
        ("WARPS", warps),
        ("ALL_WARPS", (1 << warps) - 1),
        ("FRAME_BYTES", FRAME_BYTES),
        ("COROUTINE_END", END),
    ):
        text = text.replace(f"${name}$", str(number))
    return text

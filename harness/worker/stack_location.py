"""The stack location of a silent worker is where it hangs: the lines of its kernel, and of the host's code.

A hang is ended by force, and what the process knew is lost. So it is asked first: a thread of the worker waits for a
signal and writes the answer to standard error, independent of the main thread. Kernels run without Python's lock; where
none runs, the main thread releases it every few milliseconds.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from harness.kernels.executors.base import Executor

Owns = Callable[[str], bool]
"""Whether a file, named as tracebacks name it, is source of the target."""

QUESTION = signal.SIGUSR1
SAMPLED_SECONDS = 0.2
"""How long a kernel is watched: the lines that it runs meanwhile are those that it does not leave."""
PATIENCE_SECONDS = 3.0
_END = "stack: that is all"


def hold_question() -> None:
    """Block the signal, so that only the answering thread gets it. To be called before any other thread starts."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {QUESTION})


def answer(executor: Executor | None, owns: Owns) -> None:
    """Start a thread that answers; `owns` says which files are the target's. No executor: no kernel runs."""
    main = threading.main_thread().ident
    assert main is not None

    def places() -> list[str]:
        kernel = None if executor is None else executor.under_way(SAMPLED_SECONDS)
        lines = [] if kernel is None else [_kernel_line(*kernel)]
        trail = _host_line(sys._current_frames().get(main), owns)
        return [*lines, f"the host's code is at {trail}"] if trail else lines

    def wait() -> None:
        while True:
            signal.sigwait({QUESTION})
            # A failure here leaves a hang without its place, and is not reported: the hang is a finding anyway, and a
            # traceback would mix with the target's output. The thread continues, so that it can be asked again.
            lines: list[str] = []
            with contextlib.suppress(Exception):
                lines = places()
            with contextlib.suppress(OSError, ValueError):
                print(*lines, _END, sep="\n", file=sys.stderr, flush=True)

    threading.Thread(target=wait, name="stack-location", daemon=True).start()


def _kernel_line(name: str, lines: Sequence[tuple[str, str, int]]) -> str:
    files: dict[str, set[int]] = {}
    for file, _, line in lines:
        files.setdefault(Path(file).name, set()).add(line)
    places = ", ".join(f"{file} lines {_ranges(sorted(numbers))}" for file, numbers in sorted(files.items()))
    return f"kernel {name} does not end" + (f": it runs {places}" if places else "")


def _ranges(numbers: list[int]) -> str:
    """`3, 5-7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _host_line(frame: FrameType | None, owns: Owns) -> str:
    """The target's innermost line, as tracebacks count them; empty if none of its code is running."""
    while frame is not None:
        if owns(frame.f_code.co_filename):
            return f"{Path(frame.f_code.co_filename).name} line {frame.f_lineno}, in {frame.f_code.co_name}"
        frame = frame.f_back
    return ""


def ask(process: subprocess.Popen[bytes], output: BinaryIO) -> list[str]:
    """Where a process is: a line for its kernel and one for the host's code, as far as they are known. `output` is the
    file that its standard error goes to."""
    start = output.seek(0, 2)
    process.send_signal(QUESTION)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        output.seek(start)
        lines = output.read().decode(errors="replace").splitlines()
        if _END in lines:
            output.seek(start)
            output.truncate()
            return lines[: lines.index(_END)]
        time.sleep(0.02)
    return []

"""Whereabouts are the lines at which a worker is that says nothing any more: of its kernel, and of the host's code.

A hang is ended by force, and what the process knew is lost with it. So it is asked first: a thread of the worker waits
for a signal and writes the answer to standard error, whatever the main thread does. Kernels run without Python's lock;
where none runs, the main thread gives it away every few milliseconds.
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
"""For how long a kernel is watched: what it runs meanwhile is what it does not get out of."""
PATIENCE_SECONDS = 3.0
_END = "stack: that is all"


def hold_question() -> None:
    """Keep the question for the thread that answers it. To be called before any other thread is started."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {QUESTION})


def answer(executor: Executor | None, owns: Owns) -> None:
    """Have a thread answer from here on; `owns` says which files are the target's. No executor: no kernel runs."""
    main = threading.main_thread().ident
    assert main is not None

    def places() -> list[str]:
        kernel = None if executor is None else executor.under_way(SAMPLED_SECONDS)
        lines = [] if kernel is None else [_of_kernel(*kernel)]
        trail = _of_host(sys._current_frames().get(main), owns)
        return [*lines, f"the host's code is at {trail}"] if trail else lines

    def wait() -> None:
        while True:
            signal.sigwait({QUESTION})
            # What fails here leaves a hang without its place, and is not told: a hang is a finding all the same, and a
            # traceback would stand among what the target said. The thread goes on, or it could not be asked again.
            lines: list[str] = []
            with contextlib.suppress(Exception):
                lines = places()
            with contextlib.suppress(OSError, ValueError):
                print(*lines, _END, sep="\n", file=sys.stderr, flush=True)

    threading.Thread(target=wait, name="stack-location", daemon=True).start()


def _of_kernel(name: str, lines: Sequence[tuple[str, str, int]]) -> str:
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


def _of_host(frame: FrameType | None, owns: Owns) -> str:
    """The target's innermost line, as tracebacks count them; empty if none of its code is under way."""
    while frame is not None:
        if owns(frame.f_code.co_filename):
            return f"{Path(frame.f_code.co_filename).name} line {frame.f_lineno}, in {frame.f_code.co_name}"
        frame = frame.f_back
    return ""


def ask(process: subprocess.Popen[bytes], said: BinaryIO) -> list[str]:
    """Where a process is, whose standard error is the file `said`: a line for its kernel and one for the host's code,
    as far as they are known."""
    start = said.seek(0, 2)
    process.send_signal(QUESTION)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        said.seek(start)
        lines = said.read().decode(errors="replace").splitlines()
        if _END in lines:
            said.seek(start)
            said.truncate()
            return lines[: lines.index(_END)]
        time.sleep(0.02)
    return []

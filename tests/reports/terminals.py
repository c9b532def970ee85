"""A terminal of a given size, in which a test runs a program and reads what a user would see."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pytest

pyte = pytest.importorskip("pyte", reason="pyte emulates a terminal")

SECONDS = 600.0
VARIABLES = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLORTERM")
"""What would decide in place of the terminal."""


@dataclass
class Seen:
    """What a program left: its status, all bytes, all lines (those that have scrolled away too), and whether the cursor
    is shown."""

    status: int
    written: bytes
    lines: list[str]
    cursor: bool
    colours: set[str]


def in_terminal(
    command: Sequence[str],
    *,
    width: int = 80,
    height: int = 24,
    environment: Mapping[str, str] | None = None,
    interrupt: Callable[[str], bool] | None = None,
    looks: list[list[str]] | None = None,
) -> Seen:
    """Run a command in a new terminal, as its foreground process. Where `interrupt` says so of the text on the screen,
    Ctrl-C is typed, once. `looks` gets the screen as it is after each piece of output."""
    screen = pyte.HistoryScreen(width, height, history=100_000, ratio=0.5)
    screen.set_mode(pyte.modes.LNM)
    stream = pyte.ByteStream(screen)
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in VARIABLES}

    def take_terminal() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    process = subprocess.Popen(
        command,
        stdin=other,
        stdout=other,
        stderr=other,
        env={**kept, "TERM": "xterm-256color", **(environment or {})},
        preexec_fn=take_terminal,  # noqa: PLW1509 - no other thread starts processes here
    )
    os.close(other)
    written, typed, end = bytearray(), False, time.monotonic() + SECONDS
    try:
        while True:
            assert time.monotonic() < end, "the program did not end in time"
            if not select.select([main], [], [], 1.0)[0]:
                continue
            try:
                piece = os.read(main, 1 << 16)
            except OSError:  # the program has closed the terminal
                break
            if not piece:
                break
            written += piece
            stream.feed(piece)
            if looks is not None:
                looks.append([line.rstrip() for line in screen.display])
            if interrupt is not None and not typed and interrupt("\n".join(screen.display)):
                os.write(main, b"\x03")
                typed = True
        status = process.wait(SECONDS)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(main)
    above = ["".join(line[at].data for at in range(width)) for line in screen.history.top]
    lines = [line.rstrip() for line in (*above, *screen.display)]
    while lines and not lines[-1]:
        lines.pop()
    colours = {cell.fg for line in screen.buffer.values() for cell in line.values()}
    return Seen(status, bytes(written), lines, not screen.cursor.hidden, colours)

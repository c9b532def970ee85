"""The entry point of the `harness` command: it handles Ctrl-C from its first moment on, while the rest is being loaded.

Loading takes the better part of a second, and more on a busy machine: an interrupt in it is no traceback either.
"""

from __future__ import annotations

import os
import signal

from harness.exit_status import INTERRUPTED


def main() -> None:
    """Run the command that was asked for, and exit with its status."""
    handles = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not where it is ignored, as by nohup
    if handles:
        signal.signal(signal.SIGINT, _end_at_once)
    from harness.cli.application import run

    if handles:
        signal.signal(signal.SIGINT, _interrupt)
    run()


def _end_at_once(*_: object) -> None:
    """Nothing was started yet. An exception could get lost: imports call back into Python where none is passed on."""
    os.write(2, b"harness: interrupted\n")
    os._exit(INTERRUPTED)


def _interrupt(*_: object) -> None:
    """End at the first Ctrl-C. Others change nothing: workers are ended within seconds, and then the status is told."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt

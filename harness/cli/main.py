"""The entry point of the `harness` command: it handles Ctrl-C from its first moment on, while the rest is being loaded.

Loading takes the better part of a second, and more on a busy machine: an interrupt in it is no traceback either.
SIGTERM, which `timeout` and supervisors send, ends a command as Ctrl-C does, with a status of its own.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

from harness.exit_status import TERMINATED, Interruption

_DEFAULTS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}


def main() -> None:
    """Run the command that was asked for, and exit with its status."""
    interruption = Interruption()

    def took(number: int) -> None:
        if number == signal.SIGTERM:
            interruption.word, interruption.status = "terminated", TERMINATED

    def end_at_once(number: int, frame: FrameType | None) -> None:
        """Nothing was started yet. An exception could get lost: imports call back into Python where none is passed
        on."""
        took(number)
        os.write(2, f"harness: {interruption.word}\n".encode())
        os._exit(interruption.status)

    def interrupt(number: int, frame: FrameType | None) -> None:
        """End at the first signal. Others change nothing: workers are ended within seconds, then the status is told."""
        for other in _DEFAULTS:  # not SIG_IGN yet, which a signal that is under way already would make an error of
            signal.signal(other, _nothing)
        took(number)
        raise KeyboardInterrupt

    # Not one that is ignored, as Ctrl-C by nohup.
    handled = [number for number, default in _DEFAULTS.items() if signal.getsignal(number) == default]
    for number in handled:
        signal.signal(number, end_at_once)
    from harness.cli.application import run

    for number in handled:
        signal.signal(number, interrupt)
    try:
        run(interruption)
    finally:
        for number in handled:
            if signal.getsignal(number) is _nothing:  # Python takes handlers of its own away before it ends
                signal.signal(number, signal.SIG_IGN)


def _nothing(number: int, frame: FrameType | None) -> None:
    """What a second signal does."""

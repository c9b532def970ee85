"""The entry point of the `harness` command: it handles Ctrl-C from its first moment on, while the rest is being loaded.

Loading takes most of a second, and more on a busy machine: an interrupt during it must not give a traceback either.
SIGTERM, which `timeout` and supervisors send, ends a command as Ctrl-C does, with its own status.
"""

from __future__ import annotations

import contextlib
import os
import signal
from types import FrameType

from harness.cli.began import BEGAN
from harness.interruption import INTERRUPTION

_DEFAULTS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}


def main() -> None:
    """Run the requested command, and exit with its status."""
    BEGAN.mark()
    interruption = INTERRUPTION

    def end_at_once(number: int, frame: FrameType | None) -> None:
        """End without an exception while nothing has been started: imports call back into Python at places where an
        exception would be lost."""
        with contextlib.suppress(KeyboardInterrupt):
            interruption.take(number)
        os.write(2, f"harness: {interruption.word}\n".encode())
        os._exit(interruption.status)

    def interrupt(number: int, frame: FrameType | None) -> None:
        interruption.take(number)

    # Not a signal that is ignored, as nohup does with Ctrl-C.
    handled = [number for number, default in _DEFAULTS.items() if signal.getsignal(number) == default]
    for number in handled:
        signal.signal(number, end_at_once)
    from harness.cli.application import run

    for number in handled:
        signal.signal(number, interrupt)
    try:
        run(interruption)
    finally:
        if interruption.came:  # Python removes its own handlers before it ends
            for number in handled:
                signal.signal(number, signal.SIG_IGN)

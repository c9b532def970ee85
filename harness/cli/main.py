"""The entry point of the `harness` command: it handles Ctrl-C from its first moment on, while the rest is being loaded.

Loading takes most of a second, and more on a busy machine: an interrupt during it must not give a traceback either.
SIGTERM, which `timeout` and supervisors send, ends a command as Ctrl-C does, with its own status.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

from harness.exit_status import TERMINATED, Interruption

_DEFAULTS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}


def main() -> None:
    """Run the requested command, and exit with its status."""
    interruption = Interruption()

    def took(number: int) -> None:
        if number == signal.SIGTERM:
            interruption.word, interruption.status = "terminated", TERMINATED

    def end_at_once(number: int, frame: FrameType | None) -> None:
        """End without an exception while nothing has been started: imports call back into Python at places where an
        exception would be lost."""
        took(number)
        os.write(2, f"harness: {interruption.word}\n".encode())
        os._exit(interruption.status)

    def interrupt(number: int, frame: FrameType | None) -> None:
        """End at the first signal. Others change nothing: workers end within seconds, then the command exits with its
        status."""
        for other in _DEFAULTS:  # not SIG_IGN yet: a signal that is already pending would become an error
            signal.signal(other, _nothing)
        took(number)
        raise KeyboardInterrupt

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
        for number in handled:
            if signal.getsignal(number) is _nothing:  # Python removes its own handlers before it ends
                signal.signal(number, signal.SIG_IGN)


def _nothing(number: int, frame: FrameType | None) -> None:
    """Handle a second signal: do nothing."""

"""The child is the worker's side: it makes the judge of its assignment, and serves requests until the parent is gone.

Run as `python -m harness.worker.child`, with the number of an inherited socket, the place of a function that makes the
judge (`module:function`), and the text of the assignment that it is made from.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import traceback
import warnings
from multiprocessing.connection import Connection

from harness.case import InvalidCase
from harness.files import NotSaved
from harness.kernels.executors.base import DeviceFault
from harness.refusal import Refusal
from harness.text import one_line
from harness.worker import stack_location
from harness.worker.judge import Channel, Judge, MakeJudge
from harness.worker.messages import (
    Ask,
    CaseResult,
    DeviceLost,
    Failed,
    Invalid,
    JudgeCase,
    JudgeRange,
    RangeDone,
    Ready,
    Refused,
    Reply,
    Stop,
    Unsaved,
    WorkerAnswer,
    WorkerNotice,
    receive_request,
    send,
)
from harness.worker.parent import end_with_parent


def serve(connection: Connection, make: MakeJudge, assignment: str) -> None:
    """Make the judge, then answer requests until the other side closes the connection."""
    channel = Channel(connection)
    try:
        judge = make(assignment, channel)
    except Refusal as error:
        send(connection, Refused(one_line(error)))
        return
    except Exception:
        send(connection, Failed(traceback.format_exc(), -1))
        return
    send(connection, Ready())
    while True:
        try:
            request = receive_request(connection)
        except (EOFError, OSError):  # the parent is gone, perhaps in the middle of a message
            return
        if isinstance(request, Stop):  # the range had ended when it came
            continue
        reply = _answer(judge, request)
        send(connection, reply)
        if isinstance(reply, DeviceLost):
            # A device that faulted fails everything that comes after it, also the orderly end of a process, whose
            # trace would hide what the device has printed.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)


def _answer(judge: Judge, request: JudgeCase | JudgeRange | Ask) -> Reply:
    channel = judge.channel
    try:
        if isinstance(request, JudgeCase):
            channel.index = request.index
            return CaseResult(request.index, judge.judge(request.case, request.how))
        channel.index = -1
        if isinstance(request, Ask):
            return WorkerAnswer(judge.ask(request.question, request.content))
        return RangeDone(judge.range(request))
    except InvalidCase as error:
        return Invalid(str(error))
    except DeviceFault as error:
        return DeviceLost(str(error))
    except Refusal as error:
        return Refused(one_line(error))
    except NotSaved as error:
        return Unsaved(*error.parts)
    except (Exception, SystemExit) as error:  # an unattributed SystemExit would end the child silently
        if isinstance(error, Exception) and judge.has_lost_its_device(error):
            return DeviceLost(one_line(error))
        return Failed(traceback.format_exc(), channel.index)


def main() -> None:
    """Serve the parent that started this process."""
    connection = Connection(int(sys.argv[1]))
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group: the parent ends its workers
    stack_location.hold_question()

    def notice(message: Warning | str, *_: object, **__: object) -> None:
        send(connection, WorkerNotice(one_line(message)))

    warnings.showwarning = notice  # standard error goes to a file, where no user would see a warning
    module, _, function = sys.argv[2].partition(":")
    try:
        serve(connection, getattr(importlib.import_module(module), function), sys.argv[3])
    except (BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        return  # the parent is gone: no reader is left


if __name__ == "__main__":
    main()

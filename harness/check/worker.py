"""A worker is a child process that judges cases, so that a crash or a hang costs one case and not the campaign.

It serves one target on one executor. Run as `python -m harness.check.worker`, with the number of an inherited socket;
messages are pairs (kind, content), pickled. Before each operation it says which case it is at: the journal that
names the culprit when it dies.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
import warnings
from collections.abc import Iterable
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from harness.case import CHECKS, Case, InvalidCase, decode_case, encode_case
from harness.check import whereabouts
from harness.check.outcome import Outcome
from harness.check.parent import end_with_parent
from harness.kernels.cache_directory import cache_directory

ENCODER = msgspec.msgpack.Encoder()
OUTCOMES = msgspec.msgpack.Decoder(Outcome)


class Assignment(msgspec.Struct, frozen=True):
    """What a worker is started with. Of `checks`, each case says which it wants."""

    target: str
    executor: str
    checks: tuple[str, ...] = CHECKS


def serve(connection: Connection, assignment: Assignment) -> None:
    """Load the target, then answer requests until the other side hangs up."""
    from harness.kernels.executors.base import DeviceFault, KernelDoesNotCompile
    from harness.kernels.executors.registry import UnavailableExecutor
    from harness.kernels.targets.base import UnknownTarget

    try:
        judge = _Judge(connection, assignment)
    except (UnknownTarget, UnavailableExecutor) as error:
        connection.send(("refused", " ".join(str(error).split())))
        return
    except Exception:
        connection.send(("error", (traceback.format_exc(), -1)))
        return
    connection.send(("ready", None))
    while True:
        try:
            kind, content = connection.recv()
        except EOFError:
            return
        try:
            if kind == "lines":
                judge.lines()
            elif kind == "time":
                judge.time(*content)
            elif kind == "check":
                judge.check(*content)
            elif kind == "explore":
                judge.explore(*content)
            else:
                judge.range(*content)
        except InvalidCase as error:
            connection.send(("invalid", str(error)))
        except DeviceFault as error:
            connection.send(("fault", str(error)))
            return  # a device that faulted fails everything that comes after it
        except KernelDoesNotCompile as error:
            connection.send(("refused", " ".join(str(error).split())))
        except Exception:
            connection.send(("error", (traceback.format_exc(), judge.index)))


class _Judge:
    """Answers requests with a session of its own."""

    def __init__(self, connection: Connection, assignment: Assignment) -> None:
        from harness.kernels.executors.registry import create_executor
        from harness.kernels.targets.registry import load_target

        self._connection = connection
        self.index = -1
        executor = create_executor(assignment.executor, assignment.checks)
        from harness.check.session import Session

        target = load_target(assignment.target, executor)
        self._session = Session(target, executor, self._at)
        whereabouts.answer(executor, target.owns)

    def _at(self, operation: str) -> None:
        self._connection.send(("at", (self.index, operation)))

    def check(self, text: bytes, relations: tuple[str, ...], most: int | None, sighted: bool, index: int) -> None:
        """Judge one case given as JSON, and ask relations about it; answers `outcome`. `index` is its number in a
        campaign, or -1. The rest: see Session."""
        self.index = index
        outcome = self._session.check(decode_case(text), relations, most, sighted=sighted)
        self._connection.send(("outcome", ENCODER.encode(outcome)))

    def time(self, text: bytes, launches: int) -> None:
        """Answers `times` with the seconds of each call of each operation."""
        self._connection.send(("times", self._session.time_operations(decode_case(text), launches)))

    def lines(self) -> None:
        """Answers `lines` with the kernel lines executed and those known, both as (file, function, line)."""
        executor = self._session.executor
        self._connection.send(("lines", (sorted(executor.executed_lines()), sorted(executor.known_lines()))))

    def range(self, recipe: Any, policy: Any, start: int, stop: int, deadline: float) -> None:
        """Draw and judge cases `start .. stop - 1` until the deadline (`time.monotonic`); answers a `result` each,
        then `done` with the index of the first case not judged. `policy` says which relations are asked."""
        from harness.engines.random import case_at
        from harness.regimes import regimes_of

        for index in range(start, stop):
            if time.monotonic() >= deadline:
                self._connection.send(("done", index))
                return
            self.index = index
            began = time.perf_counter()
            case = case_at(recipe, index)
            regimes = regimes_of(case)
            drawn = time.perf_counter() - began
            self._judge(recipe, policy, index, case, regimes, drawn)
        self._connection.send(("done", stop))

    def explore(self, recipe: Any, policy: Any, start: int, stop: int, deadline: float, fail_fast: bool) -> None:
        """Like `range`, with cases that Hypothesis draws: each is sent as `drawn` first, for nobody can draw it again.
        `fail_fast` ends it at the first failure."""
        # Hypothesis keeps a folder, by default in the current one.
        os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(cache_directory() / "hypothesis"))
        from harness.engines.hypothesis import explore
        from harness.regimes import regimes_of

        def judge(index: int, case: Case, drawn: float) -> bool:
            self.index = index
            self._connection.send(("drawn", encode_case(case)))
            failed = self._judge(recipe, policy, index, case, regimes_of(case), drawn)
            return not (failed and fail_fast)

        self._connection.send(("done", explore(recipe, start, stop, deadline, judge)))

    def _judge(self, recipe: Any, policy: Any, index: int, case: Case, regimes: Iterable[str], drawn: float) -> bool:
        """Judge one case of a campaign and send its `result`; whether it failed."""
        try:
            outcome = self._session.check(case, policy.at(recipe.seed, index), policy.most)
        except InvalidCase as error:
            raise RuntimeError(f"the generators drew an invalid case, number {index}: {error}") from error
        text = encode_case(case) if outcome.failure else None
        self._connection.send(("result", (index, ENCODER.encode(outcome), tuple(sorted(regimes)), drawn, text)))
        return text is not None


def main() -> None:
    connection = Connection(int(sys.argv[1]))
    assignment = msgspec.json.decode(sys.argv[2], type=Assignment)
    end_with_parent()
    whereabouts.hold_question()
    if assignment.executor == "interpreter":
        os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported, so before anything else

    def notice(message: Warning | str, *_: Any, **__: Any) -> None:
        connection.send(("notice", " ".join(str(message).split())))

    warnings.showwarning = notice
    try:
        serve(connection, assignment)
    except (BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        # The campaign is gone: nobody is left to report to.
        return


if __name__ == "__main__":
    main()

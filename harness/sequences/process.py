"""A sequence process is the campaign's side of a child: it starts one, talks to it, and notices when it is lost."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec

import harness
from harness.campaign.saving import NotSaved
from harness.case.sequence import SequenceCase, encode_sequence
from harness.check.worker_process import WorkerError, WorkerRefused, how_it_ended, is_from_outside
from harness.kernels.targets.vllm.scheduling.loading import HASH_SEED
from harness.oracles.meaning.device import NOBODY
from harness.oracles.meaning.violation import Violation
from harness.sequences.controls import Controls
from harness.sequences.kernels import Beside
from harness.sequences.recipe import SequenceRecipe
from harness.sequences.result import RESULTS, RunResult

STARTUP_SECONDS = 600.0


class SequenceProcess:
    """One child. `limit` is the most seconds that one sequence may take; a lost child is a violation of its own.

    `beside` says where the sequences' kernel arguments go.
    """

    def __init__(self, target: str, beside: Beside | None = None, limit: float = 120.0) -> None:
        self._target, self._beside, self._limit = target, beside or Beside(), limit
        self._start()

    def _start(self) -> None:
        self.at = -1
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        mine, theirs = socket.socketpair()
        with theirs:
            environment = dict(os.environ, PYTHONHASHSEED=HASH_SEED, PYTHONFAULTHANDLER="1")
            kernels = self._beside.kernels
            if kernels is None or kernels.executor != "cuda":
                environment["CUDA_VISIBLE_DEVICES"] = ""
            root = str(Path(harness.__file__).resolve().parent.parent)
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, [environment.get("PYTHONPATH"), root]))
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", "harness.sequences.child"),
                    *(str(theirs.fileno()), self._target, msgspec.json.encode(self._beside).decode()),
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
                env=environment,
            )
        self.connection = Connection(mine.detach())

    def wait_ready(self) -> None:
        """Wait until the release is loaded. Raises WorkerRefused with one line if it cannot be driven."""
        kind, content = self._receive(STARTUP_SECONDS)
        if kind != "ready":
            raise WorkerError(f"unexpected {kind!r} from a new child: {content}")

    def check(self, case: SequenceCase, controls: Controls, *, again: bool = True) -> RunResult:
        """Run one sequence. With `again`, a child that was ended from outside is asked once more.

        Raises WorkerError if the harness fails.
        """
        self.at = -1
        with contextlib.suppress(BrokenPipeError):  # what follows hears of it
            self.connection.send(("check", (encode_sequence(case), controls)))
        while True:
            kind, content = self.receive()
            if kind == "result":
                return RESULTS.decode(content[1])
            if kind == "lost":
                self.restart()
                if again and is_from_outside(content):
                    return self.check(case, controls, again=False)
                return lost_result(content)

    def send_range(self, recipe: SequenceRecipe, start: int, stop: int, controls: Controls) -> None:
        self.at = start
        self.connection.send(("range", (recipe, start, stop, controls)))

    def receive(self) -> tuple[str, Any]:
        """The next message; `lost` with its reason if the child is gone or hangs. Raises WorkerError, with the index
        of the sequence in a range, if the harness fails; NotSaved if a kernel case cannot be written."""
        return self._receive(self._limit)

    def _receive(self, limit: float) -> tuple[str, Any]:
        while True:
            try:
                if not self.connection.poll(limit):
                    self._process.kill()
                    return "lost", "hang"
                kind, content = self.connection.recv()
            except (EOFError, ConnectionResetError):
                return "lost", how_it_ended(self._process.wait())
            if kind == "at":
                self.at = content
            elif kind == "refused":
                raise WorkerRefused(content)
            elif kind == "error":
                raise WorkerError(content, None if self.at < 0 else self.at)
            elif kind == "unsaved":
                what, number, message, path = content
                raise NotSaved(what, OSError(number, message, path))
            else:
                return kind, content

    def restart(self) -> None:
        """Replace the child."""
        self.close()
        self._start()
        self.wait_ready()

    def close(self) -> None:
        """End the child. Safe to call twice."""
        self.connection.close()
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._said.close()

    def __enter__(self) -> SequenceProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def lost_result(reason: str) -> RunResult:
    """The result of a sequence whose child died or hung."""
    return RunResult(lost_violation(reason), None, -1, 0, 0.0, {})


def lost_violation(reason: str) -> Violation:
    """A child that died or hung, as a violation."""
    return Violation(f"process-{reason}", "process", 0, "the engine", -1, -1, -1, NOBODY, reason, "an answer")

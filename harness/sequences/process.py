"""A sequence process is the campaign's side of a child: it starts one, talks to it, and notices when it is lost."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar

import msgspec

import harness
from harness.campaign.saving import NotSaved
from harness.case.sequence import SequenceCase, encode_sequence
from harness.check import whereabouts
from harness.check.silence import LOOK_SECONDS, SHORTEST_LOOK_SECONDS, Silence
from harness.check.worker_process import WorkerError, WorkerRefused, how_it_ended, is_from_outside, last_words
from harness.kernels.targets.vllm.scheduling.loading import HASH_SEED
from harness.oracles.meaning.device import NOBODY
from harness.oracles.meaning.violation import Violation
from harness.sequences.controls import Controls
from harness.sequences.kernels import Beside
from harness.sequences.recipe import SequenceRecipe
from harness.sequences.result import RESULTS, RunResult

STARTUP_SECONDS = 600.0
LIMIT_SECONDS = 120.0
"""The most seconds that a sequence may take. It takes a fraction of one, but the first ones import host code, and
compile kernels if they run on bytes."""


class SequenceProcess:
    """One child. `limit` is the most seconds that one sequence may take, None for the usual ones; a lost child is a
    violation of its own, and is replaced once something else is asked.

    `beside` says where the sequences' kernel arguments go; `on_notice` takes lines for the user that are no results.
    """

    SERVES: ClassVar[tuple[str, ...]] = ("-m", "harness.sequences.child")
    """What Python is to run in a child."""

    def __init__(
        self,
        target: str,
        beside: Beside | None = None,
        limit: float | None = None,
        on_notice: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._target, self._beside, self._on_notice = target, beside or Beside(), on_notice
        self._limit = LIMIT_SECONDS if limit is None else limit
        self.last_words = ""
        """How the last child ended that was lost: what it said, and for a hang where it was."""
        self._lost = False
        self._start()

    def _start(self) -> None:
        self.at = -1
        self._loaded = False
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
                    *(sys.executable, "-P", *self.SERVES),
                    *(str(theirs.fileno()), self._target, msgspec.json.encode(self._beside).decode()),
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
                env=environment,
            )
        self.connection = Connection(mine.detach())
        self._silence = Silence(self._process.pid)

    def wait_ready(self, *, again: bool = True) -> None:
        """Wait until the release is loaded. Raises WorkerRefused with one line if it cannot be driven, WorkerError for
        a child that was lost.

        With `again`, one that was ended from outside is replaced once: memory is shortest while children start.
        """
        kind, content = self._receive(STARTUP_SECONDS)
        if kind == "lost" and again and is_from_outside(content):
            self._on_notice(f"a child was ended from outside ({content}) while it loaded: another one takes its place")
            self.restart(again=False)
            return
        if kind == "lost":
            said = f"{self.last_words}\na child was lost while it loaded {self._target} ({content})"
            raise WorkerError(said.lstrip())
        if kind != "ready":
            raise WorkerError(f"unexpected {kind!r} from a new child: {content}")
        self._loaded = True

    def check(self, case: SequenceCase, controls: Controls, *, again: bool = True) -> RunResult:
        """Run one sequence. With `again`, a child that was ended from outside is asked once more.

        Raises WorkerError if the harness fails.
        """
        self._send(-1, ("check", (encode_sequence(case), controls)))
        while True:
            kind, content = self.receive()
            if kind == "result":
                return RESULTS.decode(content[1])
            if kind == "lost":
                if again and is_from_outside(content):
                    return self.check(case, controls, again=False)
                return lost_result(content, self.last_words)

    def without_effect(self, fixes: tuple[str, ...]) -> list[str]:
        """Those of `fixes` that are known to change nothing in this release: none if the child is lost on the way.
        Raises WorkerError."""
        self._send(-1, ("effects", fixes))
        kind, content = self.receive()
        if kind == "lost":
            self._on_notice(f"a child was lost while it built an engine ({content}): which fixes act here is not known")
            return []
        names: list[str] = content
        return names

    def send_range(self, recipe: SequenceRecipe, start: int, stop: int, controls: Controls) -> None:
        """Have sequences of a campaign run; answers are to be heard."""
        self._send(start, ("range", (recipe, start, stop, controls)))

    def _send(self, start: int, message: tuple[str, Any]) -> None:
        if self._lost:
            self.restart()
        self._silence.end()
        self.at = start
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # what follows hears of it
            self.connection.send(message)

    def receive(self) -> tuple[str, Any]:
        """The next answer; `lost` with its reason if the child is gone or hangs. Raises WorkerError, with the index
        of the sequence in a range, if the harness fails; NotSaved if a kernel case cannot be written."""
        return self._receive(self._limit)

    def hear(self) -> tuple[str, Any] | None:
        """The message that is there, or None if it was no answer. Raises as `receive` does, but does not wait."""
        try:
            kind, content = self.connection.recv()
        except (EOFError, OSError):  # also in the middle of a message
            status = self._process.wait()
            self._lost = True
            self.last_words = "\n".join(last_words(self._tail()))
            return "lost", how_it_ended(status)
        self._silence.end()
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
        return None

    def overdue(self) -> bool:
        """Whether the child could have answered for longer than the limit, and said nothing (see Silence); what nobody
        listened to yet was said. May be asked as often or as seldom as one likes."""
        return self._silence.seconds() > self._limit and not self.connection.poll()

    def kill_hung(self) -> str:
        """End a child that is overdue, and tell how it was lost; the last thing it is asked is where it was."""
        where = whereabouts.ask(self._process, self._said) if self._loaded else []
        self._process.kill()
        self._process.wait()
        self._lost = True
        self.last_words = "\n".join([f"nothing heard for {self._limit:g} seconds", *where])
        return "hang"

    def _receive(self, limit: float) -> tuple[str, Any]:
        self._silence.end()
        while True:
            left = limit - self._silence.seconds()
            if not self.connection.poll(min(max(left, SHORTEST_LOOK_SECONDS), LOOK_SECONDS) if left > 0 else 0):
                if left <= 0:
                    return "lost", self.kill_hung()
                continue
            answer = self.hear()
            if answer is not None:
                return answer

    def _tail(self) -> str:
        self._said.seek(0, os.SEEK_END)
        self._said.seek(max(0, self._said.tell() - 16384))
        return self._said.read().decode(errors="replace")

    def restart(self, *, again: bool = True) -> None:
        """Replace the child, and wait for the new one; `again` as in `wait_ready`."""
        self.close()
        self._lost = False
        self._start()
        self.wait_ready(again=again)

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


LOST = "process-"
"""How kinds of violations begin in which the child was lost."""


def lost_result(reason: str, last_words: str = "") -> RunResult:
    """The result of a sequence whose child died or hung."""
    return RunResult(lost_violation(reason), None, -1, 0, 0.0, {}, last_words)


def reason_in(signature: str) -> str | None:
    """Why the child was lost, if that is what a signature says."""
    _, found, rest = signature.partition(f"/{LOST}")
    return rest.partition("/")[0] if found else None


def lost_violation(reason: str) -> Violation:
    """A child that died or hung, as a violation."""
    return Violation(f"{LOST}{reason}", "process", 0, "the engine", -1, -1, -1, NOBODY, "", "")

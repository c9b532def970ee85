"""Replaying judges the cases of files again, one after the other: is what they found still there?

Files that need the same worker share it as long as they follow each other, since loading a target takes seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from harness.repro import AnyRepro
from harness.subject.registry import AnySubject
from harness.subject.subject import Replayed, Setting
from harness.worker.process import Assignment, WorkerProcess


class Replay(NamedTuple):
    """The subject that judged a file, the file as it was judged, what came of it, what its case reached, by name (empty
    unless that was asked for), and the result of the judge."""

    subject: AnySubject
    repro: AnyRepro
    replayed: Replayed
    reached: frozenset[str]
    result: Any


class Replayer:
    """Replays files as a setting says."""

    def __init__(self, setting: Setting, stack: ExitStack, announce: Callable[[str], None]) -> None:
        """`stack` ends its workers; `announce` is given what takes long."""
        self._setting, self._stack, self._announce = setting, stack, announce
        self._worker: WorkerProcess | None = None
        self._assignment: Assignment | None = None

    def replay(self, kind: type[AnySubject], repro: AnyRepro, *, reach: bool = False) -> Replay:
        """Replay a file of a kind. `reach`: also say what its case reached.

        Raises NotApplicable, InvalidCase, Refusal, and what workers do."""
        subject, repro = kind.of_file(repro, self._setting)
        worker = self._ready(subject)
        result, reached = subject.reach(worker, repro) if reach else (subject.judge_file(worker, repro), frozenset())
        return Replay(subject, repro, subject.replayed(repro, result), frozenset(reached), result)

    def _ready(self, subject: AnySubject) -> WorkerProcess:
        assignment = subject.assignment()
        if self._worker is None or assignment != self._assignment:
            if self._worker is not None:
                self._worker.close()
            self._worker = self._stack.enter_context(subject.new_worker(self._announce))
            self._worker.limit_memory(self._setting.memory)
            self._assignment = assignment
            for line in self._worker.loading():
                self._announce(line)
        return self._worker


@contextmanager
def replaying(setting: Setting) -> Iterator[Replayer]:
    """A replayer, whose workers end with the context."""
    with ExitStack() as stack:
        yield Replayer(setting, stack, setting.announce)

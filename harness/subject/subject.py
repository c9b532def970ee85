"""A subject is a kind of input with all that a campaign needs of it: how it is drawn, judged, shrunk, counted and
saved.

An instance is set up for one target: by a command line for a campaign, or by a repro file for a replay. The part that
lives in worker processes is its judge (`harness/worker/judge.py`).
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import msgspec

from harness.case import Check
from harness.issues.known_issue import KnownIssue
from harness.repro.format import AnyRepro, ShrinkRecord
from harness.shrink.driver import Plan, Shrunk
from harness.subject.entry import Entry, Tally
from harness.subject.summary import Summary
from harness.worker.losses import WorkerLost
from harness.worker.process import Assignment, WorkerProcess


class Key(NamedTuple):
    """What tells findings apart: a signature, and the known issue behind it if there is one."""

    signature: str
    issue: str | None = None

    def __str__(self) -> str:
        return f"{self.signature} [{self.issue}]" if self.issue else self.signature


class NotApplicable(Exception):
    """A target says nothing about a file, which is no fault of either: one line that says why."""


Answer = Literal["FAILED", "FIXED", "SKIPPED"]


class Replayed(msgspec.Struct, frozen=True):
    """Whether a finding is still there. `same`: a failure has the recorded signature, and `signature` is the one it
    has; `summary` says in a line what was seen. `reason` is why the result says nothing about the finding."""

    answer: Answer
    target: str
    executor: str | None
    same: bool
    signature: str | None
    summary: str
    result: Any
    reason: str | None = None

    @property
    def exit_status(self) -> int:
        return {"FIXED": 0, "FAILED": 1, "SKIPPED": 3}[self.answer]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Where files are judged, as a command line says it; None: as the file says, or the default. `limit` is in seconds,
    `sweeping` says that the target is one of many: what does not apply to it is no mistake of the user's."""

    target: str | None = None
    executor: str | None = None
    limit: float | None = None
    checks: tuple[Check, ...] | None = None
    announce: Callable[[str], None] = lambda text: None
    sweeping: bool = False


class Ended(msgspec.Struct, frozen=True):
    """How a campaign ended: cases judged by this part of it, in seconds by the clock; the same with sorting findings
    out and shrinking them; failures of the harness, why it ended early, and whether something could not be written or
    run (status 2)."""

    judged: int
    seconds: float
    whole_seconds: float
    harness_failures: int
    early: str | None
    unusable: bool

    def exit_status(self, findings: bool, missing: bool) -> int:
        """The status of the campaign."""
        return 2 if self.unusable else 4 if self.harness_failures else 1 if findings else 3 if missing else 0


class Kept(msgspec.Struct):
    """A finding as it stands: the case that represents it, what that gave, how many cases are like it, and its file
    (None: it could not be written)."""

    index: int
    case: Any
    result: Any
    count: int
    path: Path | None
    repro: AnyRepro
    classified: bool = True
    """False if the harness failed in looking for its known issue."""


Case = TypeVar("Case")
Result = TypeVar("Result")


class Subject(abc.ABC, Generic[Case, Result]):
    """See the module. Case is what is drawn; Result is what judging it gave."""

    name: ClassVar[str]
    """The `kind` of its repro files."""
    noun: ClassVar[str]
    """What one of them is called in messages."""
    journal: ClassVar[str]
    """The file name of its journal, in the folder of a campaign."""
    file_patterns: ClassVar[tuple[str, ...]]
    """Patterns of the names of its repro files."""
    block: int = 16
    """How many a worker is given at once."""
    losses_limit: int = 200
    """After so many lost workers a campaign ends: each costs starting another one."""
    first_losses: int | None = None
    """A campaign ends if so many were judged, and all of them took their worker down in one way."""
    shrink_budget: int = 1000
    regimes: Sequence[str] = ()
    """Named situations that its results report."""
    classifies: bool = False
    """Whether findings are looked for among known issues, and saved once more for that, shrunk or not."""
    most_workers: int | None = None
    """How many workers may share a campaign, None: any number."""
    resumable: bool = True
    """Whether a case follows from its index, so that an interrupted campaign can be resumed."""

    # One campaign.

    target: str
    executor: str
    seed: int
    limit: float
    """The most seconds that a worker may say nothing."""
    loads: str | None = None
    """What its workers load, in words, if that takes so long that people are told."""

    @abc.abstractmethod
    def title(self, limit: str, workers: str) -> str:
        """The first line of a run. `limit` and `workers` are phrases: `60 s`, `2 workers`."""

    @abc.abstractmethod
    def identity(self) -> dict[str, object]:
        """What must be equal for a campaign to resume another."""

    def current_identity(self, identity: dict[str, object]) -> dict[str, object]:
        """An identity that an earlier version wrote, with the names that things have today."""
        return identity

    @abc.abstractmethod
    def assignment(self) -> Assignment:
        """What its workers are started with."""

    def new_worker(self, on_notice: Callable[[str], None] = lambda text: None) -> WorkerProcess:
        """A worker that serves it; it is not ready yet."""
        return WorkerProcess(self.assignment(), self.limit, on_notice)

    def prepare(self, worker: WorkerProcess, notice: Callable[[str], None]) -> None:
        """What to ask of the first worker before the campaign starts."""

    def finish(
        self, workers: Sequence[WorkerProcess], notice: Callable[[str], None], *, lost: bool, resumed: bool
    ) -> None:
        """What to ask of the workers when all cases are judged. `lost`: some were lost that had judged cases;
        `resumed`: an earlier part of the campaign had workers of its own."""

    def replay_options(self) -> Sequence[str]:
        """Options with which `harness replay` judges one of its cases as this campaign does, if it can."""
        return ()

    # Cases.

    @abc.abstractmethod
    def recipe_text(self) -> bytes:
        """What a worker needs to draw."""

    @abc.abstractmethod
    def draw(self, index: int) -> Case:
        """Case `index`: the same in every process."""

    @abc.abstractmethod
    def encode(self, case: Case) -> bytes:
        """A case as JSON."""

    @abc.abstractmethod
    def decode(self, text: bytes) -> Case:
        """Raises InvalidCase."""

    def rank(self, case: Case, index: int) -> tuple[int, int]:
        """The order in which cases represent a finding, the first of them first."""
        return (0, index)

    # Results.

    @abc.abstractmethod
    def read(self, result: bytes) -> Result:
        """What a worker sent."""

    @abc.abstractmethod
    def lost(self, loss: WorkerLost) -> Result:
        """A lost worker is what its case gave."""

    def judge(self, worker: WorkerProcess, case: Case, *, index: int = -1, again: bool = True) -> Result:
        """Judge one case as the campaign does; a lost worker is a result. `again`: see WorkerProcess.judge."""
        try:
            return self.read(worker.judge(self.encode(case), index=index, again=again))
        except WorkerLost as lost:
            return self.lost(lost)

    def lost_before(self, signature: str) -> Result | None:
        """The result of a case that an earlier part of a campaign lost a worker to; None: it is to be judged again."""
        return None

    @abc.abstractmethod
    def key(self, case: Case, result: Result) -> Key | None:
        """What was found, None if nothing. Its issue may stand for several that are told apart later."""

    @abc.abstractmethod
    def is_loss(self, result: Result) -> bool:
        """Whether each run of such a case costs a worker."""

    def ending_in(self, signature: str) -> str | None:
        """How a worker was lost, if that is what a signature says."""
        return None

    def entry(self, index: int, case: Case | None, result: Result, key: Key | None) -> Entry:
        """What the campaign remembers; `case` is None if only its worker knows it."""
        signature, issue = (None, None) if key is None else key
        return Entry(index, signature=signature, issue=issue)

    # Findings.

    @abc.abstractmethod
    def repro(
        self, case: Case, result: Result, index: int | None, issue: str | None, record: ShrinkRecord | None
    ) -> AnyRepro:
        """The file that carries a finding."""

    def classify(self, worker: WorkerProcess, case: Case, signature: str) -> str | None:
        """The known issue behind a finding."""
        return None

    def known_issues(self, key: Key, repro: Any) -> list[KnownIssue]:
        """The known issues that a finding is, or looks like."""
        return []

    @abc.abstractmethod
    def plan(self, worker: WorkerProcess, key: Key, result: Result) -> Plan[Case, Result]:
        """How the finding that `result` shows is shrunk."""

    def conclude(self, worker: WorkerProcess, key: Key, shrunk: Shrunk[Case, Result]) -> tuple[Result, Key] | None:
        """The result of a minimal case and its key; None if it does not show the finding a second time."""
        found = self.key(shrunk.case, shrunk.result)
        assert found is not None
        return shrunk.result, Key(found.signature, key.issue)

    def stays_as_drawn(self, result: Result) -> bool:
        """Whether a campaign does not shrink it: because each run would cost too much."""
        return False

    # Answers.

    @abc.abstractmethod
    def summary(self, tally: Tally, findings: Sequence[tuple[Key, Kept]], ended: Ended) -> Summary:
        """The result of a campaign, as `--json` prints it."""

    @abc.abstractmethod
    def replayed(self, repro: Any, result: Result) -> Replayed:
        """The answer to whether the finding of a file is still there."""

    def answer_fields(self, replayed: Replayed) -> dict[str, object]:
        """What `harness replay --json` prints of an answer."""
        return {
            "answer": replayed.answer,
            "same": replayed.same,
            "target": replayed.target,
            "summary": replayed.summary,
            "result": msgspec.to_builtins(replayed.result),
        }

    # Files.

    @classmethod
    @abc.abstractmethod
    def of_file(cls, repro: Any, setting: Setting) -> tuple[Subject[Case, Result], Any]:
        """Set up for a file, with whatever has to be downloaded for it; and the file as it is to be judged.

        Raises InvalidCase, Refusal, or NotApplicable.
        """

    @classmethod
    @abc.abstractmethod
    def case_of(cls, repro: Any) -> Case:
        """The case in a file."""

    @classmethod
    @abc.abstractmethod
    def smaller(cls, repro: Any, case: Case, result: Result, issue: str | None, record: ShrinkRecord) -> Any:
        """A file with a smaller case in it, and what that gave."""

    def judge_file(self, worker: WorkerProcess, repro: Any) -> Result:
        """Judge the case of a file as its finding has to be judged. Raises InvalidCase."""
        return self.judge(worker, self.case_of(repro))

    unloadable: ClassVar[Literal["ERROR", "NOT APPLICABLE"]] = "ERROR"
    """What a sweep answers for a target that a worker refuses to load."""

    @classmethod
    def require_installed(cls, targets: Sequence[str]) -> None:
        """Raise Refusal, with one line, if files cannot be judged on any of the targets for lack of packages."""

    @classmethod
    def announce_downloads(cls, targets: Sequence[str], announce: Callable[[str], None]) -> None:
        """Say how much judging files on the targets has to download, if it is much."""

"""A subject is a kind of input with everything that a campaign needs: how it is drawn, judged, shrunk, counted, saved.

An instance is set up for one target: by a command line for a campaign, or by a repro file for a replay. The part that
lives in worker processes is its judge (`harness/worker/judge.py`).
"""

from __future__ import annotations

import abc
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import msgspec

from harness.case import Check
from harness.issues.known_issue import REGRESSION, KnownIssue
from harness.repro.format import AnyRepro, ShrinkRecord
from harness.shrink.driver import Plan, Shrunk
from harness.subject.edits import EditedLines
from harness.subject.entry import Entry, Tally
from harness.subject.standing import Answer, Standing
from harness.subject.summary import Summary
from harness.worker.losses import WorkerLost
from harness.worker.process import Assignment, WorkerProcess


class Key(NamedTuple):
    """What distinguishes findings: a signature, and the known issue behind it if there is one. `regression`: the base
    release of the target does not have the issue."""

    signature: str
    issue: str | None = None
    regression: bool = False

    def __str__(self) -> str:
        return f"{self.signature} [{self.issue_in_words}]" if self.issue else self.signature

    @property
    def issue_in_words(self) -> str | None:
        """The issue, with the word for one that is back."""
        return f"{REGRESSION} {self.issue}" if self.issue and self.regression else self.issue


class NotApplicable(Exception):
    """A target says nothing about a file, which is a fault of neither; the message is one line that says why."""


class Replayed(msgspec.Struct, frozen=True):
    """Whether a finding is still there. `same`: a failure has the recorded signature; `signature` is that of the
    failure; `summary` says in a line what was seen. `reason` is why the result says nothing about the finding."""

    answer: Answer
    target: str
    executor: str | None
    same: bool
    signature: str | None
    summary: str
    result: Any
    reason: str | None = None
    settings: tuple[str, ...] | None = None
    """Of a failure, the settings that differ from the target's defaults; None: not known, or there are none."""
    edits: tuple[EditedLines, ...] = ()
    """The edited lines of a checkout that a failure ran, as far as they are known."""

    @property
    def exit_status(self) -> int:
        return {"FIXED": 0, "FAILED": 1, "SKIPPED": 3}[self.answer]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Where files are judged, as a command line says; None: as the file says, or the default.

    `base` is the base release of a checkout, `limit` is in seconds, `memory` in bytes of a worker. `sweeping` says that
    the target is one of many: a file that does not apply to it is not a mistake of the user.
    """

    target: str | None = None
    base: str | None = None
    executor: str | None = None
    limit: float | None = None
    memory: int | None = None
    checks: tuple[Check, ...] | None = None
    announce: Callable[[str], None] = lambda text: None
    sweeping: bool = False


class Ended(msgspec.Struct, frozen=True):
    """How a campaign ended: cases judged by this part of it, the seconds by the clock that this took, and those with
    sorting out and shrinking findings; failures of the harness, why it ended early, and whether something could not be
    written or run (status 2); `interrupted` is the status of the signal that ended it, if one did.
    `missing` is what earlier parts of it had and this one has not, in words. `standing` is what its findings count for
    in the light of what was known before; None: each counts."""

    judged: int
    seconds: float
    whole_seconds: float
    harness_failures: int
    early: str | None
    unusable: bool
    interrupted: int | None = None
    missing: tuple[str, ...] = ()
    standing: Standing | None = None
    findings: int = 0
    """How many findings it has; only asked for with a standing."""
    failed_fast: bool = False
    """Whether its first finding ended it, as was asked for."""

    def exit_status(self, findings: bool, missing: bool) -> int:
        """The status of the campaign, with any findings, and with anything missing."""
        if self.standing is not None:
            findings = self.standing.fails(self.findings)
        if self.interrupted is not None:
            return self.interrupted
        return 2 if self.unusable else 4 if self.harness_failures else 1 if findings else 3 if missing else 0


MOST_FAILING = 8
"""How many of the cases that showed a finding are remembered by number."""
MOST_IN_BLOCK = 2
"""How many of these may be of one block."""

Rank = tuple[int, int]
"""The place of a drawn case among those that may represent a finding; its second part is the case's number."""


class Kept(msgspec.Struct):
    """The current form of a finding: the case that represents it, its result, how many cases showed it, and its file
    (None: it could not be written)."""

    index: int
    case: Any
    result: Any
    count: int
    path: Path | None
    repro: AnyRepro
    classified: bool = True
    """False if the harness failed while looking for its known issue."""
    failing: list[Rank] = []
    """The first ranks of cases that showed it, as far as they are remembered."""
    met: Key | None = None
    """The finding in whose shrinking it was met, if no drawn case showed it."""


Case = TypeVar("Case")
Result = TypeVar("Result")


class Variation(NamedTuple):
    """Another form of a file: what was changed, in words, and the changed file."""

    words: str
    repro: Any


class Subject(abc.ABC, Generic[Case, Result]):
    """See the module. Case is what is drawn; Result is the result of judging it."""

    name: ClassVar[str]
    """The `kind` of its repro files."""
    noun: ClassVar[str]
    """The word for one case in messages."""
    journal: ClassVar[str]
    """The file name of its journal, in the folder of a campaign."""
    summary_type: ClassVar[type[msgspec.Struct] | None] = None
    """The class of its summaries, by which summaries that were kept are checked; None: what reports need is checked."""
    file_patterns: ClassVar[tuple[str, ...]]
    """Patterns of the names of its repro files."""
    block: int = 16
    """The number of cases that a worker gets at once."""
    losses_limit: int = 200
    """A campaign ends after this number of lost workers: each costs starting another one."""
    first_losses: int | None = None
    """A campaign ends if this number of cases were judged, and all of them took their worker down in the same way."""
    shrink_budget: int = 1000
    regimes: Sequence[str] = ()
    """Named situations that its results report."""
    classifies: bool = False
    """Whether findings are classified by known issue, and saved again after that, shrunk or not."""
    most_workers: int | None = None
    """How many workers may share a campaign; None: any number."""
    resumable: bool = True
    """Whether a case follows from its index, so that an interrupted campaign can be resumed."""

    # One campaign.

    target: str
    executor: str
    seed: int
    limit: float
    """The maximum number of seconds that a worker may be silent."""
    loads: str | None = None
    """What its workers load, for a message, if that takes long enough to be announced."""

    @abc.abstractmethod
    def title(self, limit: str, workers: str) -> str:
        """The first line of a run. `limit` and `workers` are phrases: `60 s`, `2 workers`."""

    @abc.abstractmethod
    def identity(self) -> dict[str, object]:
        """The settings that must be equal for a campaign to resume another."""

    def current_identity(self, identity: dict[str, object]) -> dict[str, object]:
        """An identity that an earlier version wrote, with today's names."""
        return identity

    @abc.abstractmethod
    def assignment(self) -> Assignment:
        """What its workers are started with."""

    def new_worker(self, on_notice: Callable[[str], None] = lambda text: None) -> WorkerProcess:
        """A worker for it, which is not ready yet."""
        return WorkerProcess(self.assignment(), self.limit, on_notice)

    def prepare(self, worker: WorkerProcess, notice: Callable[[str], None]) -> None:
        """Ask the first worker what is needed before the campaign starts."""

    @property
    def regimes_within_reach(self) -> frozenset[str]:
        """The regimes that a case of this campaign can be in."""
        return frozenset(self.regimes)

    def finish(
        self, workers: Sequence[WorkerProcess], notice: Callable[[str], None], *, lost: bool, resumed: bool
    ) -> None:
        """Ask the workers what is needed when all cases are judged. `lost`: some workers that had judged cases were
        lost; `resumed`: what workers of an earlier part of the campaign would say is not remembered."""

    def remembered(self) -> bytes:
        """What `finish` got from the workers, as JSON in one line, for later parts of the campaign."""
        return b"null"

    def recall(self, said: bytes) -> None:
        """Take over what an earlier part remembered, or a shard. Raises msgspec.DecodeError."""

    def replay_options(self) -> Sequence[str]:
        """Options that make `harness replay` judge a case as this campaign does, as far as it can."""
        return ()

    # Cases.

    @abc.abstractmethod
    def recipe_text(self) -> bytes:
        """What a worker needs to draw cases."""

    @abc.abstractmethod
    def draw(self, index: int) -> Case:
        """Case `index`: the same in every process."""

    @abc.abstractmethod
    def encode(self, case: Case) -> bytes:
        """A case as JSON."""

    def encode_failed(self, case: Case, index: int, message: str) -> bytes:
        """The case with this index, in which the harness itself failed with this message, as a file that `harness
        replay` takes: a case alone, or a repro file whose finding is the failure."""
        return self.encode(case)

    @abc.abstractmethod
    def decode(self, text: bytes) -> Case:
        """A case from JSON. Raises InvalidCase."""

    def rank(self, case: Case, index: int) -> Rank:
        """The order in which cases represent a finding, the first of them first."""
        return (0, index)

    # Results.

    @abc.abstractmethod
    def read(self, result: bytes) -> Result:
        """Decode a result that a worker sent."""

    @abc.abstractmethod
    def lost(self, loss: WorkerLost) -> Result:
        """The result of a case whose worker was lost."""

    def judge(self, worker: WorkerProcess, case: Case, *, index: int = -1, again: bool = True) -> Result:
        """Judge one case as the campaign does; the loss of the worker is a result as well. `again`: see
        WorkerProcess.judge."""
        try:
            return self.read(worker.judge(self.encode(case), index=index, again=again))
        except WorkerLost as lost:
            return self.lost(lost)

    def lost_before(self, signature: str) -> Result | None:
        """The result of a case to which an earlier part of a campaign lost a worker; None: judge it again."""
        return None

    @abc.abstractmethod
    def key(self, case: Case, result: Result) -> Key | None:
        """The key of what was found, None if nothing was. Its issue may represent several that are distinguished
        later."""

    @abc.abstractmethod
    def is_loss(self, result: Result) -> bool:
        """Whether each run of such a case costs a worker."""

    def ending_in(self, signature: str) -> str | None:
        """How a worker was lost, if the signature is that of a loss."""
        return None

    def entry(self, index: int, case: Case | None, result: Result, key: Key | None) -> Entry:
        """What the campaign remembers of a case; `case` is None if only its worker knows it."""
        signature, issue = (None, None) if key is None else (key.signature, key.issue)
        return Entry(index, signature=signature, issue=issue)

    def spent(self, result: Result) -> dict[str, float]:
        """The seconds that a worker took for a result, by what it did with them."""
        return {}

    # Findings.

    @abc.abstractmethod
    def repro(
        self, case: Case, result: Result, index: int | None, issue: str | None, record: ShrinkRecord | None
    ) -> AnyRepro:
        """The file that carries a finding."""

    def drawn_stem(self, repro: Any) -> str:
        """The start of the name of a finding's file as drawn, which must not depend on the case."""
        return str(repro.file_name).rpartition("-")[0]

    def classify(self, worker: WorkerProcess, case: Case, signature: str) -> str | None:
        """The known issue behind a finding."""
        return None

    def key_of(self, signature: str, issue: str | None) -> Key:
        """The key of a finding that was classified."""
        return Key(signature, issue)

    def known_issues(self, key: Key, repro: Any) -> list[KnownIssue]:
        """The known issues that a finding is, or looks like."""
        return []

    def issue_of(self, key: Key, repro: Any) -> Key:
        """A finding's key with the known issue that it is, or looks like, as reports name it."""
        return key

    def about(self, key: Key, repro: Any) -> tuple[str, ...]:
        """Lines that say what is known about a finding."""
        return tuple(issue.line for issue in self.known_issues(key, repro))

    @abc.abstractmethod
    def plan(self, worker: WorkerProcess, key: Key, result: Result) -> Plan[Case, Result]:
        """How the finding that `result` shows is shrunk."""

    def conclude(self, worker: WorkerProcess, key: Key, shrunk: Shrunk[Case, Result]) -> tuple[Result, Key] | None:
        """The result of a minimal case and its key; None if it does not show the finding a second time."""
        found = self.key(shrunk.case, shrunk.result)
        assert found is not None
        return shrunk.result, self.key_of(found.signature, key.issue)

    def explain(self, worker: WorkerProcess, case: Case, result: Result, failing: Sequence[int]) -> Result:
        """The result of a finding's case with what takes longer to work out, as the last thing that is done for a
        finding. `failing` are the first numbers of drawn cases that showed it, in the order of their ranks."""
        return result

    def stays_as_drawn(self, result: Result) -> bool:
        """Whether a campaign does not shrink it, because each run would cost too much."""
        return False

    # Answers.

    def looking_again(self, repro: Any) -> str:
        """The command that looks for what is like the finding of a file, such as after a change that mended it."""
        return f"harness run -t {shlex.quote(self.target)} --ops {repro.signature.operation} --fail-fast"

    @abc.abstractmethod
    def summary(self, tally: Tally, findings: Sequence[tuple[Key, Kept]], ended: Ended) -> Summary:
        """The result of a campaign, as `--json` prints it."""

    @abc.abstractmethod
    def replayed(self, repro: Any, result: Result) -> Replayed:
        """Whether the finding of a file is still there."""

    def answer_fields(self, replayed: Replayed) -> dict[str, object]:
        """The fields of an answer that `harness replay --json` prints."""
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
        """A subject set up for a file, with downloads done, and the file as it is to be judged.

        Raises InvalidCase, Refusal, or NotApplicable.
        """

    @classmethod
    @abc.abstractmethod
    def case_of(cls, repro: Any) -> Case:
        """The case in a file."""

    @classmethod
    def regimes_of(cls, repro: Any) -> frozenset[str]:
        """The named situations that the case in a file is in."""
        return frozenset()

    @classmethod
    @abc.abstractmethod
    def smaller(cls, repro: Any, case: Case, result: Result, issue: str | None, record: ShrinkRecord) -> Any:
        """A file with a smaller case and its result."""

    @classmethod
    def with_result(cls, repro: Any, result: Result) -> Any:
        """A file as it would be with this result, a failure, of judging its case again."""
        record = repro.shrink or ShrinkRecord(executions=0, seconds=0.0, complete=False)
        return cls.smaller(repro, cls.case_of(repro), result, repro.issue, record)

    def judge_file(self, worker: WorkerProcess, repro: Any) -> Result:
        """Judge the case of a file as its finding has to be judged. Raises InvalidCase."""
        return self.judge(worker, self.case_of(repro))

    def reach(self, worker: WorkerProcess, repro: Any) -> tuple[Result, frozenset[str]]:
        """Judge the case of a file, and name all that it reached: situations, and lines of code. Raises InvalidCase."""
        return self.judge_file(worker, repro), frozenset()

    def variations(self, worker: WorkerProcess, repro: Any, result: Result) -> Iterator[Variation]:
        """Other forms of a file whose finding the worker's target might have too, the likeliest for a user first;
        `result` is that of the file as it is. Raises WorkerError."""
        return iter(())

    def shows(self, worker: WorkerProcess, repro: Any, result: Result) -> bool:
        """Whether the result of a variation is the finding of the file `repro`."""
        return False

    has_variations: ClassVar[bool] = False
    """Whether a pass of a file says only that this form of the finding is not there."""

    unloadable: ClassVar[Literal["ERROR", "NOT APPLICABLE"]] = "ERROR"
    """The answer of a sweep for a target that a worker refuses to load."""

    @classmethod
    def require_installed(cls, targets: Sequence[str]) -> None:
        """Raise Refusal, with one line, if files cannot be judged on any of the targets because packages are
        missing."""

    @classmethod
    def announce_downloads(cls, targets: Sequence[str], announce: Callable[[str], None]) -> None:
        """Announce the size of the downloads for judging files on the targets, if it is large."""

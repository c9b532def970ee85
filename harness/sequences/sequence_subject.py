"""What subjects whose cases are step sequences have in common: results, keys, known issues, and files.

They differ in what runs a sequence: a release's scheduler with a symbolic device, or a whole engine.
"""

from __future__ import annotations

import abc
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import msgspec

from harness.case.sequence import SequenceCase, decode_sequence, encode_sequence
from harness.check.outcome import Evidence, Signature
from harness.issues.known_issue import KnownIssue
from harness.issues.registry import SEQUENCE_ISSUES, TOGETHER, current_name, issues_of
from harness.kernels.targets.vllm.base_release import BaseRelease
from harness.oracles.states.violation import LOST, Violation
from harness.repro import AnyRepro, EngineRepro, SequenceRepro, ShrinkRecord
from harness.repro.store import encode_repro
from harness.sequences.classifying import classify_again
from harness.sequences.controls import Controls
from harness.sequences.result import RESULTS, RunResult
from harness.sequences.summary import SequenceFinding
from harness.sequences.worker import check, lost_result, reason_in
from harness.shrink.driver import Shrunk
from harness.subject.entry import Entry
from harness.subject.faults import Fault, facts_of, grouped
from harness.subject.subject import Kept, Key, Subject
from harness.worker.losses import WorkerLost
from harness.worker.process import WorkerProcess

File = TypeVar("File", SequenceRepro, EngineRepro)


@dataclass(kw_only=True)
class SequenceSubject(Subject[SequenceCase, RunResult]):
    """`controls` are those that were asked for. `base` is the target's base release (None: `target` is a release, or no
    release is here to compare with)."""

    noun: ClassVar[str] = "sequence"
    unloadable = "NOT APPLICABLE"

    target: str
    controls: Controls = field(default_factory=Controls)
    base: BaseRelease | None = None

    losses_limit = 50  # each costs loading the release
    # More cases would cost ten seconds each. A release that loses one sequence in ten ends like that with a chance of
    # one in 100,000, a release that loses every second one with a chance of 3 in 100.
    first_losses = 5
    classifies = True

    def _act(self) -> None:
        """Decide which fixes act."""
        self._base = None if self.base is None else self.base.version
        self._on = self.controls
        """The controls with the fixes that act: an issue that is fixed in the base release must not be muted."""
        if self._base is not None:
            fixed = {issue.name for issue in SEQUENCE_ISSUES if issue.is_fixed_in(self._base)}
            fixes = tuple(fix for fix in self.controls.fixes if fix not in fixed)
            self._on = msgspec.structs.replace(self.controls, fixes=fixes)

    @abc.abstractmethod
    def failed(self, case: SequenceCase, index: int, signature: Signature, evidence: Evidence) -> AnyRepro:
        """The file of a sequence in which the harness itself failed."""

    def encode_failed(self, case: SequenceCase, index: int, message: str) -> bytes:
        (*_, last) = ["", *message.strip().splitlines()]
        signature = Signature(self.name, "harness", "failure", "-", "-")
        return encode_repro(self.failed(case, index, signature, Evidence(f"the harness itself failed: {last}")))

    @property
    @abc.abstractmethod
    def planted(self) -> tuple[str, ...]:
        """The faults that are planted: no known issue is behind what they do."""

    @classmethod
    @abc.abstractmethod
    def signature_of(cls, violation: Violation) -> Signature:
        """The signature, which is equal for violations that are the same finding."""

    @classmethod
    @abc.abstractmethod
    def evidence_of(cls, violation: Violation, trace: str = "") -> Evidence:
        """What was seen."""

    def current_identity(self, identity: dict[str, object]) -> dict[str, object]:
        controls = identity.get("controls")
        if not isinstance(controls, dict) or not isinstance(controls.get("fixes"), list):
            return identity
        return {**identity, "controls": {**controls, "fixes": [current_name(str(fix)) for fix in controls["fixes"]]}}

    def reach(self, worker: WorkerProcess, repro: Any) -> tuple[RunResult, frozenset[str]]:
        """What the sequence met, by the names of counters."""
        result = self.judge_file(worker, repro)
        return result, frozenset(name for name, count in result.counters.items() if count)

    def encode(self, case: SequenceCase) -> bytes:
        return encode_sequence(case)

    def decode(self, text: bytes) -> SequenceCase:
        return decode_sequence(text)

    # Results.

    def read(self, result: bytes) -> RunResult:
        return RESULTS.decode(result)

    def lost(self, loss: WorkerLost) -> RunResult:
        return lost_result(loss.violation, "\n".join(loss.last_words))

    def lost_before(self, signature: str) -> RunResult | None:
        """The loss itself: running it again would cost another worker, and for a hang the time limit."""
        reason = reason_in(signature)
        return None if reason is None else lost_result(reason)

    def judge(self, worker: WorkerProcess, case: SequenceCase, *, index: int = -1, again: bool = True) -> RunResult:
        return check(worker, case, self._on, index=index, again=again)

    def key(self, case: SequenceCase, result: RunResult) -> Key | None:
        """The issues of the key are those whose fix was not asked for and that the case can reach; they are
        distinguished when findings are sorted out."""
        if result.violation is None:
            return None
        signature = str(self.signature_of(result.violation))
        if self.planted or self.is_loss(result):
            return Key(signature)
        off = [
            issue.name for issue in SEQUENCE_ISSUES if issue.name not in self.controls.fixes and issue.reached_by(case)
        ]
        return Key(signature, TOGETHER.join(off) or None)

    def is_loss(self, result: RunResult) -> bool:
        return result.violation is not None and result.violation.kind.startswith(LOST)

    def ending_in(self, signature: str) -> str | None:
        return reason_in(signature)

    def entry(self, index: int, case: SequenceCase | None, result: RunResult, key: Key | None) -> Entry:
        signature, issue = (None, None) if key is None else (key.signature, key.issue)
        return Entry(index, result.steps, result.seconds, result.counters, result.skipped, signature, issue)

    # Findings.

    def looking_again(self, repro: Any) -> str:
        """See Subject."""
        kind = "engine" if isinstance(repro, EngineRepro) else "sequences"
        return f"harness run -t {shlex.quote(self.target)} --ops {kind} --fail-fast"

    def key_of(self, signature: str, issue: str | None) -> Key:
        """An issue that the base release does not have is a regression, also together with one that it has."""
        base = self._base
        back = base is not None and any(one.is_fixed_in(base) for one in issues_of(issue))
        return Key(signature, issue, back)

    def about(self, key: Key, repro: Any) -> tuple[str, ...]:
        if not key.regression or self._base is None:
            return super().about(key, repro)
        return tuple(
            issue.regression_line(f"vllm {self._base}") if issue.is_fixed_in(self._base) else issue.line
            for issue in issues_of(key.issue)
        )

    def known_issues(self, key: Key, repro: Any) -> list[KnownIssue]:
        return list(issues_of(key.issue))

    def conclude(
        self, worker: WorkerProcess, key: Key, shrunk: Shrunk[SequenceCase, RunResult]
    ) -> tuple[RunResult, Key] | None:
        """Run the minimal case once more, alone: in a campaign the host code does not run with every sequence."""
        result = check(worker, shrunk.case, self._on)
        if result.violation is None or str(self.signature_of(result.violation)) != key.signature:
            return None
        issue = classify_again(worker, shrunk.case, self._on, key.signature, key.issue, self._base)
        return result, self.key_of(key.signature, issue)

    def stays_as_drawn(self, result: RunResult) -> bool:
        return self.is_loss(result)

    def faults_behind(self, findings: Sequence[tuple[Key, Kept]]) -> list[Fault]:
        """The findings grouped by what they share."""
        return grouped(
            facts_of(
                findings,
                lambda key, kept: (key.issue, "; ".join(self.about(key, kept.repro))),
                lambda kept: len(kept.case.events),
            )
        )

    # Files.

    @classmethod
    def case_of(cls, repro: File) -> SequenceCase:
        return repro.sequence

    @classmethod
    def smaller(
        cls, repro: File, case: SequenceCase, result: RunResult, issue: str | None, record: ShrinkRecord
    ) -> File:
        assert result.violation is not None
        return msgspec.structs.replace(
            repro,
            sequence=case,
            signature=cls.signature_of(result.violation),
            evidence=cls.evidence_of(result.violation, result.trace),
            settings=settings_of(result),
            issue=issue,
            shrink=record,
        )


def settings_of(result: RunResult) -> tuple[str, ...] | None:
    """The settings that differ from the defaults of the release; None: not known."""
    return None if result.settings is None else tuple(result.settings)


def finding_of(key: Key, kept: Kept) -> SequenceFinding:
    """A finding as a summary has it."""
    record = kept.repro.shrink
    return SequenceFinding(
        key.signature,
        key.issue,
        kept.repro.evidence.summary,
        kept.index,
        kept.count,
        len(kept.case.events),
        None if kept.path is None else str(kept.path),
        record is not None and record.complete,
        key.regression,
        kept.repro.settings if isinstance(kept.repro, SequenceRepro | EngineRepro) else None,
        list(kept.result.edits),
        kept.classified,
    )

"""Whole engines as a subject: random sequences on a release's engine, whose tokens have to be the plain run's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec

from harness import __version__
from harness.case import InvalidCase
from harness.case.sequence import SequenceCase, decode_sequence, encode_sequence
from harness.end_to_end.builds import Build, build_of
from harness.end_to_end.campaign_messages import STATES, AboutEngines, DrawnOnEngines, WhichSequence
from harness.end_to_end.engine_process import LIMIT_SECONDS, engine_assignment
from harness.end_to_end.offers import why_not
from harness.end_to_end.recipe import EngineRecipe, engine_sequence_at
from harness.end_to_end.summary import EngineSummary
from harness.end_to_end.verdict import evidence_of, signature_of
from harness.generators.sequences.events import SEQUENCE_GENERATOR_VERSION
from harness.issues.known_issue import KnownIssue
from harness.issues.registry import SEQUENCE_ISSUES, TOGETHER, current_name, issues_of
from harness.kernels.mutations.registry import mutation
from harness.kernels.targets.vllm.base_release import BaseRelease
from harness.oracles.states.violation import LOST, WRONG_TOKEN
from harness.refusal import UnknownTarget
from harness.repro import EngineRepro, Origin, ShrinkRecord
from harness.repro.format import DIGITS
from harness.sequences.classifying import SequencePlan, classify, classify_again
from harness.sequences.controls import Controls
from harness.sequences.judge import ENCODER
from harness.sequences.result import RESULTS, ROWS, RunResult
from harness.sequences.summary import SequenceFinding
from harness.sequences.worker import check, defaults_of, lost_result, reason_in
from harness.shrink.driver import Shrunk
from harness.shrink.sequences import without_events
from harness.subject.entry import Entry, Tally
from harness.subject.faults import facts_of, grouped
from harness.subject.subject import Answer, Ended, Kept, Key, NotApplicable, Replayed, Setting, Subject
from harness.subject.trust import may_choose, unnamed_target
from harness.text import counted, one_line
from harness.worker.losses import WorkerLost
from harness.worker.process import Assignment, WorkerProcess

JUDGE = "harness.end_to_end.inside.campaign_judge:make"
EXECUTOR = "engine"
"""What the origin of a file names in the place of an executor."""


@dataclass(kw_only=True)
class WholeEngines(Subject[SequenceCase, RunResult]):
    """`build` is whose engine runs; `controls` are those that were asked for, `faults` are planted in the fused
    kernels. `base` is the target's base release (None: `target` is a release, or none is here to compare with)."""

    name: ClassVar[str] = "engine"
    noun: ClassVar[str] = "sequence"
    journal: ClassVar[str] = "engine.journal"
    file_patterns: ClassVar[tuple[str, ...]] = (f"engine-*-{DIGITS}.json",)
    unloadable = "NOT APPLICABLE"

    target: str
    build: Build
    recipe: EngineRecipe | None = None
    controls: Controls = field(default_factory=Controls)
    faults: tuple[str, ...] = ()
    limit: float = LIMIT_SECONDS
    base: BaseRelease | None = None
    _unfixable: tuple[str, ...] = field(default=(), init=False)

    block = 4
    losses_limit = 50  # each costs importing the release
    first_losses = 5
    shrink_budget = 400
    classifies = True

    def __post_init__(self) -> None:
        self._base = None if self.base is None else self.base.version
        self._on = self.controls
        """The controls with the fixes that act: an issue that is fixed in the base release must not be muted."""
        if self._base is not None:
            fixed = {issue.name for issue in SEQUENCE_ISSUES if issue.is_fixed_in(self._base)}
            fixes = tuple(fix for fix in self.controls.fixes if fix not in fixed)
            self._on = msgspec.structs.replace(self.controls, fixes=fixes)
        self.executor = EXECUTOR
        self.seed = 0 if self.recipe is None else self.recipe.seed
        self.loads = self.build.description

    @property
    def _recipe(self) -> EngineRecipe:
        assert self.recipe is not None, "set up for a file"
        return self.recipe

    def title(self, limit: str, workers: str) -> str:
        recipe = self._recipe
        pinned = {name: value for name, value in msgspec.structs.asdict(recipe.pins).items() if value is not None}
        pins = "pins " + ",".join(f"{name}={str(value).lower()}" for name, value in pinned.items())
        planted = "+".join([self.target, *self.faults])
        drawn = pins if pinned else "no pins"
        return f"{planted} ({self.build.description}): whole engines, seed {recipe.seed}, {drawn}, {limit}, {workers}"

    def identity(self) -> dict[str, object]:
        return {
            "target": self.target,
            "build": self.build.description,
            # A worker has the defaults and the layers: they are not known yet when a journal is opened.
            "recipe": msgspec.to_builtins(msgspec.structs.replace(self._recipe, defaults=None, layers={})),
            "controls": msgspec.to_builtins(self.controls),
            "faults": list(self.faults),
            "generator": SEQUENCE_GENERATOR_VERSION,
            **({} if self._base is None else {"base": self._base}),
        }

    def current_identity(self, identity: dict[str, object]) -> dict[str, object]:
        controls = identity.get("controls")
        if not isinstance(controls, dict) or not isinstance(controls.get("fixes"), list):
            return identity
        return {**identity, "controls": {**controls, "fixes": [current_name(str(fix)) for fix in controls["fixes"]]}}

    def assignment(self) -> Assignment:
        return engine_assignment(self.build, self.faults, JUDGE)

    def new_worker(self, on_notice: Callable[[str], None] = lambda text: None) -> WorkerProcess:
        """A worker whose notices are dropped: they are warnings of the release's own imports."""
        return WorkerProcess(self.assignment(), self.limit)

    def prepare(self, worker: WorkerProcess, notice: Callable[[str], None]) -> None:
        for note in self.build.notes:
            notice(note)
        about = defaults_of(worker)
        if about.unknown is not None:
            notice(f"production's defaults of {self.target} are not known, so any settings are drawn: {about.unknown}")
        engines = msgspec.msgpack.decode(worker.ask("engines", ENCODER.encode(self._on.fixes)), type=AboutEngines)
        self.recipe = msgspec.structs.replace(self._recipe, defaults=about.defaults, layers=engines.layers)
        self._unfixable = engines.without_form

    # Cases.

    def recipe_text(self) -> bytes:
        return ENCODER.encode(DrawnOnEngines(self._recipe, self._on))

    def draw(self, index: int) -> SequenceCase:
        return engine_sequence_at(self._recipe, index)

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

    def judge_file(self, worker: WorkerProcess, repro: EngineRepro) -> RunResult:
        """Judge the sequence of a file, and name the state that is wrong first."""
        return self._with_states(worker, repro.sequence, self.judge(worker, repro.sequence))

    def key(self, case: SequenceCase, result: RunResult) -> Key | None:
        """The issues of the key are those whose fix was not asked for and that the case can reach; they are
        distinguished when findings are sorted out."""
        if result.violation is None:
            return None
        signature = str(signature_of(result.violation))
        if self.faults or self.is_loss(result):
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

    def repro(
        self, case: SequenceCase, result: RunResult, index: int | None, issue: str | None, record: ShrinkRecord | None
    ) -> EngineRepro:
        assert result.violation is not None
        return EngineRepro(
            signature=signature_of(result.violation),
            evidence=evidence_of(result.violation, result.trace),
            origin=Origin(
                target=self.target,
                executor=EXECUTOR,
                harness_version=__version__,
                generator_version=SEQUENCE_GENERATOR_VERSION,
                seed=self._recipe.seed,
                index=index,
            ),
            fixes=self._on.fixes,
            faults=self.faults,
            issue=issue,
            settings=_settings(result),
            shrink=record,
            sequence=case,
        )

    def classify(self, worker: WorkerProcess, case: SequenceCase, signature: str) -> str | None:
        """The known issue behind a finding. A planted fault is none."""
        return None if self.faults else classify(worker, case, self._on, signature, self._base)

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

    def known_issues(self, key: Key, repro: EngineRepro) -> list[KnownIssue]:
        return list(issues_of(key.issue))

    def plan(self, worker: WorkerProcess, key: Key, result: RunResult) -> SequencePlan:
        return _EnginePlan(worker, key.signature, key.issue, self._on, self._base, signature_of)

    def conclude(
        self, worker: WorkerProcess, key: Key, shrunk: Shrunk[SequenceCase, RunResult]
    ) -> tuple[RunResult, Key] | None:
        """Run the minimal case once more, and name the state that is wrong first."""
        result = check(worker, shrunk.case, self._on)
        if result.violation is None or str(signature_of(result.violation)) != key.signature:
            return None
        issue = classify_again(worker, shrunk.case, self._on, key.signature, key.issue, self._base)
        return self._with_states(worker, shrunk.case, result), self.key_of(key.signature, issue)

    def _with_states(self, worker: WorkerProcess, case: SequenceCase, result: RunResult) -> RunResult:
        if result.violation is None or result.violation.kind != WRONG_TOKEN:
            return result
        try:
            answer = worker.ask(STATES, ENCODER.encode(WhichSequence(case, self._on)))
        except WorkerLost as lost:
            lines = [f"which state is wrong is not known: the process was lost ({lost.violation})"]
        else:
            lines = msgspec.msgpack.decode(answer, type=list[str])
        return msgspec.structs.replace(result, trace="\n".join([*lines, *result.trace.splitlines()]))

    def stays_as_drawn(self, result: RunResult) -> bool:
        return self.is_loss(result)

    # Answers.

    def summary(self, tally: Tally, findings: Sequence[tuple[Key, Kept]], ended: Ended) -> EngineSummary:
        missing = [] if tally.steps else ["no step was run"]
        return EngineSummary(
            target=self.target,
            build=self.build.description,
            seed=self._recipe.seed,
            sequences=tally.cases,
            steps=tally.steps,
            steps_per_second=round(tally.steps / tally.seconds, 1) if tally.seconds else 0.0,
            in_this_part=ended.judged,
            seconds=round(ended.seconds, 2),
            whole_seconds=round(ended.whole_seconds, 2),
            skipped=dict(sorted(tally.skipped.items())),
            counters=dict(sorted(tally.counters.items())),
            fixes=list(self._on.fixes),
            fixes_without_form=list(self._unfixable),
            findings=[_finding(key, kept) for key, kept in findings],
            missing=missing,
            harness_failures=ended.harness_failures,
            exit_status=ended.exit_status(bool(findings), bool(missing)),
            ended_early=ended.early,
            faults=grouped(
                facts_of(
                    findings,
                    lambda key, kept: (key.issue, "; ".join(self.about(key, kept.repro))),
                    lambda kept: len(kept.case.events),
                )
            ),
            base=self.base,
        )

    def replayed(self, repro: EngineRepro, result: RunResult) -> Replayed:
        if result.violation is not None:
            signature = signature_of(result.violation)
            same = signature == repro.signature
            lines = [result.violation.summary]
            lines += [line for line in result.trace.splitlines() if line.startswith(("first wrong", "no wrong"))]
            words = "; ".join(lines)
            settings = _settings(result)
            return Replayed("FAILED", self.target, EXECUTOR, same, str(signature), words, result, settings=settings)
        reason = result.skipped or (None if result.counters.get(ROWS) else "no row ran")
        summary = reason or f"{counted(result.steps, 'step')} with the plain run's tokens"
        answer: Answer = "FIXED" if reason is None else "SKIPPED"
        return Replayed(answer, self.target, EXECUTOR, False, None, summary, result, reason)

    # Files.

    @classmethod
    def of_file(cls, repro: EngineRepro, setting: Setting) -> tuple[WholeEngines, EngineRepro]:
        from harness.sequences.subject import base_release, sequence_target

        chosen = repro.origin.target if setting.target is None else setting.target
        name = sequence_target(chosen.partition("+")[0])
        if setting.target is None and not may_choose(name):
            raise unnamed_target(name)
        for fault in repro.faults:
            mutation(fault)
        try:
            build = build_of(name, setting.announce)
        except UnknownTarget as missing:
            if setting.sweeping:
                raise NotApplicable(one_line(missing)) from missing
            raise
        controls = Controls(fixes=repro.fixes)
        limit = LIMIT_SECONDS if setting.limit is None else setting.limit
        base = base_release(name, setting.base, setting.announce)
        return cls(target=name, build=build, controls=controls, faults=repro.faults, limit=limit, base=base), repro

    @classmethod
    def case_of(cls, repro: EngineRepro) -> SequenceCase:
        return repro.sequence

    @classmethod
    def smaller(
        cls, repro: EngineRepro, case: SequenceCase, result: RunResult, issue: str | None, record: ShrinkRecord
    ) -> EngineRepro:
        assert result.violation is not None
        return msgspec.structs.replace(
            repro,
            sequence=case,
            signature=signature_of(result.violation),
            evidence=evidence_of(result.violation, result.trace),
            settings=_settings(result),
            issue=issue,
            shrink=record,
        )


class _EnginePlan(SequencePlan):
    """Sequences that an engine can run. Events are taken away first: each run costs as many steps as it has."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.passes = (without_events, *self.passes)

    def require_valid(self, case: SequenceCase) -> None:
        impossible = why_not(case.config)
        if impossible is not None:
            raise InvalidCase(impossible)


def _settings(result: RunResult) -> tuple[str, ...] | None:
    return None if result.settings is None else tuple(result.settings)


def _finding(key: Key, kept: Kept) -> SequenceFinding:
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
        kept.repro.settings if isinstance(kept.repro, EngineRepro) else None,
    )

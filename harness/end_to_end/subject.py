"""Whole engines as a subject: random sequences on a release's engine, whose tokens have to be the plain run's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec

from harness import __version__
from harness.case import InvalidCase
from harness.case.sequence import SequenceCase
from harness.check.outcome import Evidence, Signature
from harness.end_to_end.builds import Build, build_of
from harness.end_to_end.campaign_messages import STATES, AboutEngines, DrawnOnEngines, WhichSequence
from harness.end_to_end.engine_process import LIMIT_SECONDS, engine_assignment
from harness.end_to_end.offers import why_no_run
from harness.end_to_end.recipe import EngineRecipe, engine_sequence_at
from harness.end_to_end.summary import EngineSummary
from harness.end_to_end.verdict import evidence_of, signature_of
from harness.generators.sequences.events import SEQUENCE_GENERATOR_VERSION
from harness.kernels.mutations.registry import mutation
from harness.kernels.targets.vllm.base_release import sources_of
from harness.oracles.states.violation import WRONG_TOKEN, Violation
from harness.refusal import UnknownTarget
from harness.repro import EngineRepro, Origin, ShrinkRecord
from harness.repro.format import DIGITS
from harness.sequences.classifying import SequencePlan, classify
from harness.sequences.controls import Controls
from harness.sequences.judge import ENCODER
from harness.sequences.result import ROWS, RunResult
from harness.sequences.sequence_subject import SequenceSubject, finding_of, settings_of
from harness.sequences.worker import defaults_of
from harness.shrink.driver import Shrunk
from harness.shrink.sequences import without_events
from harness.subject.entry import Tally
from harness.subject.standing import Answer
from harness.subject.subject import Ended, Kept, Key, NotApplicable, Replayed, Setting
from harness.subject.trust import may_choose, unnamed_target
from harness.text import counted, one_line
from harness.worker.losses import WorkerLost
from harness.worker.process import Assignment, WorkerProcess

JUDGE = "harness.end_to_end.inside.campaign_judge:make"
EXECUTOR = "engine"
"""What the origin of a file names in the place of an executor."""


@dataclass(kw_only=True)
class WholeEngines(SequenceSubject):
    """`build` is whose engine runs; `controls` are those that were asked for, `faults` are planted in the fused
    kernels. `base` is the target's base release (None: `target` is a release, or none is here to compare with)."""

    name: ClassVar[str] = "engine"
    summary_type = EngineSummary
    journal: ClassVar[str] = "engine.journal"
    file_patterns: ClassVar[tuple[str, ...]] = (f"engine-*-{DIGITS}.json",)

    build: Build
    recipe: EngineRecipe | None = None
    faults: tuple[str, ...] = ()
    limit: float = LIMIT_SECONDS
    _unfixable: tuple[str, ...] = field(default=(), init=False)

    block = 4
    shrink_budget = 400

    def __post_init__(self) -> None:
        self._act()
        self.executor = EXECUTOR
        self.seed = 0 if self.recipe is None else self.recipe.seed
        self.loads = self.build.description

    @property
    def planted(self) -> tuple[str, ...]:
        return self.faults

    @classmethod
    def signature_of(cls, violation: Violation) -> Signature:
        return signature_of(violation)

    @classmethod
    def evidence_of(cls, violation: Violation, trace: str = "") -> Evidence:
        return evidence_of(violation, trace)

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
            **sources_of(self.target.partition("+")[0]),
        }

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

    # Results.

    def judge_file(self, worker: WorkerProcess, repro: EngineRepro) -> RunResult:
        """Judge the sequence of a file, and name the state that is wrong first."""
        return self._with_states(worker, repro.sequence, self.judge(worker, repro.sequence))

    # Findings.

    def failed(self, case: SequenceCase, index: int, signature: Signature, evidence: Evidence) -> EngineRepro:
        return EngineRepro(
            signature=signature,
            evidence=evidence,
            origin=self._origin(index),
            fixes=self._on.fixes,
            faults=self.faults,
            sequence=case,
        )

    def _origin(self, index: int | None) -> Origin:
        return Origin(
            target=self.target,
            executor=EXECUTOR,
            harness_version=__version__,
            generator_version=SEQUENCE_GENERATOR_VERSION,
            seed=self._recipe.seed,
            index=index,
        )

    def repro(
        self, case: SequenceCase, result: RunResult, index: int | None, issue: str | None, record: ShrinkRecord | None
    ) -> EngineRepro:
        assert result.violation is not None
        return EngineRepro(
            signature=signature_of(result.violation),
            evidence=evidence_of(result.violation, result.trace),
            origin=self._origin(index),
            fixes=self._on.fixes,
            faults=self.faults,
            issue=issue,
            settings=settings_of(result),
            shrink=record,
            sequence=case,
        )

    def classify(self, worker: WorkerProcess, case: SequenceCase, signature: str) -> str | None:
        """The known issue behind a finding. A planted fault is none."""
        return None if self.faults else classify(worker, case, self._on, signature, self._base)

    def plan(self, worker: WorkerProcess, key: Key, result: RunResult) -> SequencePlan:
        return _EnginePlan(worker, key.signature, key.issue, self._on, self._base, signature_of)

    def conclude(
        self, worker: WorkerProcess, key: Key, shrunk: Shrunk[SequenceCase, RunResult]
    ) -> tuple[RunResult, Key] | None:
        """The state that is wrong first is named as well."""
        concluded = super().conclude(worker, key, shrunk)
        if concluded is None:
            return None
        result, final = concluded
        return self._with_states(worker, shrunk.case, result), final

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

    # Answers.

    def summary(self, tally: Tally, findings: Sequence[tuple[Key, Kept]], ended: Ended) -> EngineSummary:
        missing = [*([] if tally.steps else ["no step was run"]), *ended.missing]
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
            findings=[finding_of(key, kept) for key, kept in findings],
            missing=missing,
            harness_failures=ended.harness_failures,
            exit_status=ended.exit_status(bool(findings), bool(missing)),
            ended_early=ended.early,
            faults=self.faults_behind(findings),
            base=self.base,
            standing=ended.standing,
        )

    def replayed(self, repro: EngineRepro, result: RunResult) -> Replayed:
        if result.violation is not None:
            signature = signature_of(result.violation)
            same = signature == repro.signature
            lines = [result.violation.summary]
            lines += [line for line in result.trace.splitlines() if line.startswith(("first wrong", "no wrong"))]
            words = "; ".join(lines)
            settings = settings_of(result)
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


class _EnginePlan(SequencePlan):
    """Sequences that an engine can run. Events are taken away first: each run costs as many steps as it has."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.passes = (without_events, *self.passes)

    def require_valid(self, case: SequenceCase) -> None:
        impossible = why_no_run(case)
        if impossible is not None:
            raise InvalidCase(impossible)

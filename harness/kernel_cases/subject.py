"""Kernel cases as a subject: one target on one executor, and cases from a recipe or a file."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec

from harness import __version__
from harness.case import Case, Check, InvalidCase, decode_case, encode_case
from harness.check.looked_at import not_looked_at, rests_on_order
from harness.check.outcome import Evidence, Outcome, Signature, with_recorded_diagnosis
from harness.engines.random import CASES_PER_LAYOUT, GENERATOR_VERSION, Recipe, case_at
from harness.engines.relations import RelationPolicy
from harness.generators.kinds.registry import KINDS
from harness.issues.kernel_issue import KernelIssue
from harness.issues.known_issue import KnownIssue
from harness.issues.registry import kernel_issue, kernel_regression
from harness.kernel_cases.comparison import Comparison, compared
from harness.kernel_cases.diagnosing import looked_at
from harness.kernel_cases.line_coverage import KernelLines
from harness.kernel_cases.plan import CasePlan
from harness.kernel_cases.recipe import ENCODER, JUDGED, CaseQuestion, CaseRecipe, EngineName, JudgedCase, with_regimes
from harness.kernel_cases.summary import CaseSummary, Finding
from harness.kernel_cases.worker import (
    CaseWorker,
    KernelLine,
    assignment,
    check,
    forget_lines,
    judged,
    kernel_lines,
    lost_outcome,
)
from harness.kernels.executors.registry import executor_class, recorded_executor_name
from harness.kernels.targets.download_size import announce_downloads
from harness.kernels.targets.registry import plain_name, prepare
from harness.kernels.targets.vllm.base_release import sources_of
from harness.kernels.targets.vllm.edits import why_not_watched
from harness.oracles.relations.registry import UnknownRelation, relation
from harness.regimes import REGIMES, regimes_of
from harness.regimes.reach import within_reach
from harness.repro import Origin, Repro, ShrinkRecord
from harness.repro.format import DIGITS
from harness.shrink.driver import Shrunk
from harness.subject.edits import EditCoverage, EditedLines, EditTally
from harness.subject.entry import Entry, Tally, bits_of, regimes_digest
from harness.subject.faults import facts_of, grouped
from harness.subject.standing import Answer
from harness.subject.subject import Ended, Kept, Key, Replayed, Setting, Subject
from harness.subject.trust import may_choose, unnamed_target
from harness.worker.losses import WorkerLost
from harness.worker.process import Assignment, WorkerProcess

EXPLORED_AT_ONCE = 1000
"""Cases that Hypothesis draws at a time."""

KILLED = "crash-SIGKILL"
"""The violation of a worker that was killed: by a fault, for want of memory, or from outside."""

EVERY_REGIME = ("all",)
"""What `--require` says in place of names."""

_REGIMES = tuple(sorted(REGIMES))


class _Remembered(msgspec.Struct, frozen=True):
    """Kernel lines that ran, all lines of these kernels, and edited lines that ran."""

    executed: list[KernelLine]
    known: list[KernelLine]
    edits: list[EditedLines]


def case_seconds(executor: str) -> float:
    """The maximum number of seconds for one operation. Natively one takes far less than a second; elsewhere compiling
    takes several."""
    return 20.0 if executor == "native" else 120.0


@dataclass(kw_only=True)
class KernelCases(Subject[Case, JudgedCase]):
    """`limit` is the maximum number of seconds for one operation. `require` names regimes that have to be reached in
    cases that are judged; with EVERY_REGIME, each that this target takes.
    Operations `named` by the user have to be judged; others that the target lacks are only reported. `checks` are
    watched in cases of files; None: those that the file says. `explains`: evidence of files is explained, which runs a
    case once more. `comparison` is that with the target's base release."""

    name: ClassVar[str] = "case"
    noun: ClassVar[str] = "case"
    summary_type = CaseSummary
    journal: ClassVar[str] = "cases.journal"
    file_patterns: ClassVar[tuple[str, ...]] = tuple(f"{name}-*-{DIGITS}.json" for name in KINDS)

    target: str
    executor: str
    limit: float
    recipe: Recipe | None = None
    engine: EngineName = "random"
    require: tuple[str, ...] = ()
    named: bool = True
    relations: RelationPolicy = field(default_factory=RelationPolicy)
    checks: tuple[Check, ...] | None = None
    explains: bool = True
    comparison: Comparison = field(default_factory=Comparison)
    _lines: KernelLines = field(default_factory=KernelLines, init=False)
    _edits: EditTally = field(default_factory=EditTally, init=False)

    regimes = _REGIMES

    def __post_init__(self) -> None:
        self.seed = 0 if self.recipe is None else self.recipe.seed
        self.block = CASES_PER_LAYOUT if self.engine == "random" else EXPLORED_AT_ONCE
        self.most_workers = None if self.engine == "random" else 1  # it learns from what it has tried
        self.resumable = self.engine == "random"

    @property
    def _recipe(self) -> Recipe:
        assert self.recipe is not None, "set up for a file"
        return self.recipe

    def title(self, limit: str, workers: str) -> str:
        recipe = self._recipe
        return (
            f"{self.target}{self.comparison.title} on {self.executor}: seed {recipe.seed}, "
            f"{' and '.join(recipe.domains)} domain, {', '.join(recipe.operations)}, {limit}, {workers}"
        )

    def identity(self) -> dict[str, object]:
        return {
            "target": self.target,
            "executor": self.executor,
            "recipe": msgspec.to_builtins(self._recipe),
            "relations": msgspec.to_builtins(self.relations),
            "engine": self.engine,
            "generator": GENERATOR_VERSION,
            "regimes": regimes_digest(_REGIMES),  # entries have them as bits
            **sources_of(plain_name(self.target)),
        }

    @functools.cached_property
    def regimes_within_reach(self) -> frozenset[str]:
        return frozenset(within_reach(self._recipe.domains, self._recipe.operations))

    def assignment(self) -> Assignment:
        return assignment(self.target, self.executor, base=self.comparison.base)

    def new_worker(self, on_notice: Callable[[str], None] = lambda text: None) -> CaseWorker:
        return CaseWorker(self.target, self.executor, limit=self.limit, on_notice=on_notice, base=self.comparison.base)

    def finish(
        self, workers: Sequence[WorkerProcess], notice: Callable[[str], None], *, lost: bool, resumed: bool
    ) -> None:
        silent = self._lines.collect(workers)
        if self.comparison.base is not None:
            self._edits.collect(workers)
        if silent or lost:
            notice("line coverage leaves out what lost workers ran")
        if resumed:
            notice("line coverage leaves out what ran in a part of the campaign that was killed")

    def remembered(self) -> bytes:
        executed, known = self._lines.remembered()
        return msgspec.json.encode(_Remembered(executed, known, self._edits.remembered()))

    def recall(self, said: bytes) -> None:
        read = msgspec.json.decode(said, type=_Remembered)
        self._lines.recall(read.executed, read.known)
        self._edits.recall(read.edits)

    def replay_options(self) -> Sequence[str]:
        return ("-t", self.target, "-e", self.executor)

    # Cases.

    def recipe_text(self) -> bytes:
        return ENCODER.encode(CaseRecipe(self._recipe, self.relations, self.engine))

    def draw(self, index: int) -> Case:
        return case_at(self._recipe, index)

    def encode(self, case: Case) -> bytes:
        return encode_case(case)

    def decode(self, text: bytes) -> Case:
        return decode_case(text)

    def rank(self, case: Case, index: int) -> tuple[int, int]:
        """Reachable cases come before those of the total domain."""
        return (case.domain != "reachable", index)

    # Results.

    def read(self, result: bytes) -> JudgedCase:
        return JUDGED.decode(result)

    def lost(self, loss: WorkerLost) -> JudgedCase:
        return JudgedCase(lost_outcome(loss))

    def judge(self, worker: WorkerProcess, case: Case, *, index: int = -1, again: bool = True) -> JudgedCase:
        policy = self.relations
        question = CaseQuestion(policy.at(self.seed, index) if index >= 0 else (), policy.most)
        return JudgedCase(check(worker, case, question, again=again, index=index))

    def key(self, case: Case, result: JudgedCase) -> Key | None:
        """None also for an operation that the target has lost: what else calls it fails for that reason."""
        signature = result.outcome.signature
        if signature is None or self.comparison.reason(signature.operation) is not None:
            return None
        return Key(str(signature))

    def is_loss(self, result: JudgedCase) -> bool:
        signature = result.outcome.signature
        return signature is not None and signature.object == "process"

    def entry(self, index: int, case: Case | None, result: JudgedCase, key: Key | None) -> Entry:
        counters: dict[str, int] = {}

        def count(name: str, more: int = 1) -> None:
            counters[name] = counters.get(name, 0) + more

        outcome = result.outcome
        for verdict in outcome.verdicts:
            count("launches", verdict.launches)
            if verdict.status == "skip":
                count(f"skipped {verdict.reason}")
                lacks = verdict.reason == "lacks-operation"
                count(f"lacks {verdict.operation}: {verdict.detail}" if lacks else f"declined {verdict.operation}")
            elif verdict.refused:
                count("skipped refused")
            else:
                count(f"judged {verdict.operation}")
        for verdict in outcome.relations:
            count("launches", verdict.launches)
            if verdict.status != "skip":
                count(f"relation {verdict.relation}")
        if case is not None and not (result.regimes or result.unjudged):
            result = with_regimes(case, outcome)
        whole = [verdict for verdict in outcome.verdicts if not verdict.judged]
        if len(whole) < len(outcome.verdicts):
            count("cases judged")
        return Entry(
            index,
            counters={name: number for name, number in counters.items() if number},
            signature=None if key is None else key.signature,
            reached=bits_of(result.regimes, _REGIMES),
            missed=bits_of(result.unjudged, _REGIMES) if result.unjudged else "",
            why=whole[0].why_not if whole and result.unjudged else "",
        )

    def spent(self, result: JudgedCase) -> dict[str, float]:
        return msgspec.to_builtins(result.outcome.seconds)  # type: ignore[no-any-return]

    # Findings.

    def repro(
        self, case: Case, result: JudgedCase, index: int | None, issue: str | None, record: ShrinkRecord | None
    ) -> Repro:
        signature, evidence = _found(result.outcome)
        return Repro(
            signature=signature,
            evidence=evidence,
            origin=Origin(
                target=self.target,
                executor=self.executor,
                harness_version=__version__,
                generator_version=GENERATOR_VERSION,
                engine=self.engine,
                seed=self._recipe.seed,
                index=index,
            ),
            shrink=record,
            case=case,
        )

    def known_issues(self, key: Key, repro: Any) -> list[KnownIssue]:
        issue = self._known_as(repro)
        return [] if issue is None else [issue]

    def issue_of(self, key: Key, repro: Any) -> Key:
        known = self._known_as(repro)
        return Key(key.signature, None if known is None else known.name, self._regression(repro) is not None)

    def _regression(self, repro: Repro) -> KernelIssue | None:
        """The issue that a finding looks like although the base release does not have it any more."""
        base = self.comparison.base
        if base is None:
            return None
        return kernel_regression(base.version, repro.signature, repro.case)

    def about(self, key: Key, repro: Any) -> tuple[str, ...]:
        base, issue = self.comparison.base, self._regression(repro)
        if base is None or issue is None:
            return super().about(key, repro)
        diagnosis = repro.evidence.diagnosis  # None while a campaign has not asked for it yet
        doubt = "" if diagnosis is None else issue.doubt(diagnosis)
        if doubt:
            return (f"it has the signature of {issue.line}; {base.name} does not have that, and {doubt}",)
        return (f"it looks like {issue.line}; {base.name} does not have that",)

    def plan(self, worker: WorkerProcess, key: Key, result: JudgedCase) -> CasePlan:
        """If a relation saw the failure, that relation is checked for candidates."""
        signature, _ = _found(result.outcome)
        asked = () if signature.relation is None else (signature.relation,)
        question = CaseQuestion(asked, instrumented=signature.instrumented)
        return CasePlan(signature, lambda case: check(worker, case, question))

    def conclude(
        self, worker: WorkerProcess, key: Key, shrunk: Shrunk[Case, JudgedCase]
    ) -> tuple[JudgedCase, Key] | None:
        """A worker that was killed may have been killed from outside: then the smallest case does not kill it a second
        time, and shows nothing."""
        signature, _ = _found(shrunk.result.outcome)
        if self.is_loss(shrunk.result) and signature.violation == KILLED:
            again = check(worker, shrunk.case, CaseQuestion(instrumented=signature.instrumented))
            if again.signature != signature:
                return None
        return super().conclude(worker, key, shrunk)

    def explain(self, worker: WorkerProcess, case: Case, result: JudgedCase, failing: Sequence[int]) -> JudgedCase:
        """The case is judged once more, after the drawn cases that narrow its diagnosis, if it has one and they can be
        drawn again. The result stays as it is if that one differs, as it may on a device that runs programs as it
        likes, or where one of the drawn cases takes the worker down."""
        signature, _ = _found(result.outcome)
        if signature.relation is not None or self.is_loss(result):
            return result
        alone = CaseQuestion(instrumented=signature.instrumented, explain=True)
        questions = [alone]
        if self.engine == "random" and failing and signature.oracle != "exception":
            drawn = msgspec.structs.replace(alone, recipe=self.recipe_text(), numbers=tuple(looked_at(failing)))
            questions.insert(0, drawn)
        for question in questions:
            again = judged(worker, case, question)
            if again.outcome.signature == signature:
                return again
        return result

    # Answers.

    def summary(self, tally: Tally, findings: Sequence[tuple[Key, Kept]], ended: Ended) -> CaseSummary:
        recipe, counters = self._recipe, tally.counters
        judged: dict[str, int] = {name: counters[f"judged {name}"] for name in recipe.operations}
        never = [name for name, count in judged.items() if not count]
        lacking: dict[str, str] = {
            name: words for name in never if not counters[f"declined {name}"] and (words := _lacks(tally, name))
        }
        excused = {} if self.named or not any(judged.values()) else lacking
        if self.comparison.unknown:  # the target may have lost what it lacks
            excused = {name: words for name, words in excused.items() if name in self.comparison.left}
        regimes = {name: tally.reached[name] for name in sorted(self.regimes_within_reach)}
        unjudged = {
            name: words.most_common(1)[0][0] for name, words in sorted(tally.missed.items()) if not tally.reached[name]
        }
        every = [name for name in regimes if name not in unjudged]
        required = every if self.require == EVERY_REGIME else self.require
        missing = [f"regime {name}" for name in required if not tally.reached[name]]
        if not ended.failed_fast:  # else what comes after the first finding is not missing
            missing += [f"operation {name}" for name in never if name not in excused]
        relations = {name: counters[f"relation {name}"] for name in self.relations.names}
        if self.relations.required:
            missing += [f"relation {name}" for name, count in relations.items() if not count]
        missing += ended.missing
        return CaseSummary(
            seed=recipe.seed,
            target=self.target,
            executor=self.executor,
            engine=self.engine,
            domain=recipe.domains[0] if len(recipe.domains) == 1 else "both",
            cases=tally.cases,
            judged=judged,
            skipped=dict(sorted(_after(tally, "skipped "))),
            skips=dict(sorted(_after(tally, "lacks "), key=lambda item: -item[1])),
            launches=counters["launches"],
            seconds=round(ended.seconds, 3),
            cases_per_second=round(ended.judged / ended.seconds, 2) if ended.seconds > 0 else 0.0,
            findings=[self._finding(key, kept) for key, kept in findings],
            faults=grouped(facts_of(findings, self._fault_of, lambda kept: len(encode_case(kept.case)))),
            cases_judged=counters["cases judged"],
            regimes=regimes,
            unjudged=unjudged,
            kernel_lines=self._lines.coverage(),
            exit_status=ended.exit_status(bool(findings), bool(missing or self.comparison.lost)),
            standing=ended.standing,
            missing=missing,
            lost=list(self.comparison.lost),
            base=self.comparison.base,
            uncompared=self.comparison.unknown,
            edited=self._edited(),
            harness_failures=ended.harness_failures,
            ended_early=ended.early,
            lacking=lacking,
            relations=relations,
            in_this_part=ended.judged,
            whole_seconds=round(ended.whole_seconds, 3),
        )

    def _edited(self) -> EditCoverage | None:
        base = self.comparison.base
        return None if base is None else self._edits.coverage(why_not_watched(base))

    def _known_as(self, repro: Repro) -> KernelIssue | None:
        """The known issue that a finding looks like."""
        return kernel_issue(self.target, repro.signature, repro.case) or self._regression(repro)

    def _fault_of(self, key: Key, kept: Kept) -> tuple[str | None, str]:
        """The known fault that a finding looks like, and what that is."""
        repro: Any = kept.repro
        known, diagnosis = self._known_as(repro), repro.evidence.diagnosis
        if known is None:
            return (None, "")
        if diagnosis is not None and self._doubt(repro):
            return (known.fault, f"{diagnosis.sentence} (with the signature of {known.name})")
        return (known.fault, known.line)

    def _doubt(self, repro: Repro) -> str:
        """What its diagnosis has against the issue that a finding looks like although the base release does not have it
        any more; empty if nothing."""
        issue = self._regression(repro)
        return "" if issue is None else issue.doubt(repro.evidence.diagnosis)

    def _finding(self, key: Key, kept: Kept) -> Finding:
        repro: Any = kept.repro
        issue = self.issue_of(key, repro)
        return Finding(
            key.signature,
            repro.evidence.summary,
            repro.domain,
            kept.index,
            kept.count,
            None if kept.path is None else str(kept.path),
            None if repro.shrink is None else msgspec.structs.asdict(repro.shrink),
            issue.issue,
            issue.regression,
            repro.evidence.diagnosis,
            list(repro.evidence.places),
            list(kept.result.edits),
            self._doubt(repro),
        )

    def replayed(self, repro: Repro, result: JudgedCase) -> Replayed:
        outcome = result.outcome
        failure, signature = outcome.failure, repro.signature
        if failure is not None:
            same, summary = failure.signature == signature, failure.evidence.summary if failure.evidence else ""
            name = str(failure.signature)
            return Replayed("FAILED", self.target, self.executor, same, name, summary, outcome, edits=result.edits)
        reason = _not_judged(outcome, signature, self.comparison) or not_looked_at(
            signature, repro.origin.executor, repro.case.execution, self.executor
        )
        answer: Answer = "FIXED" if reason is None else "SKIPPED"
        return Replayed(answer, self.target, self.executor, False, None, "", outcome, reason)

    def answer_fields(self, replayed: Replayed) -> dict[str, object]:
        return {
            "answer": replayed.answer,
            "target": replayed.target,
            "executor": replayed.executor,
            "same": replayed.same,
            "outcome": msgspec.to_builtins(replayed.result),
        }

    # Files.

    @classmethod
    def of_file(cls, repro: Repro, setting: Setting) -> tuple[KernelCases, Repro]:
        target = setting.target
        if target is None:
            target = repro.origin.target
            if not may_choose(target):
                raise unnamed_target(target)
        relations_to_ask(repro.signature)
        prepare(target, setting.announce)
        executor = setting.executor or recorded_executor_name(repro.origin.executor, setting.announce)
        executor_class(executor)
        limit = case_seconds(executor) if setting.limit is None else setting.limit
        if setting.checks is not None:
            execution = msgspec.structs.replace(repro.case.execution, checks=setting.checks)
            repro = msgspec.structs.replace(repro, case=msgspec.structs.replace(repro.case, execution=execution))
        comparison = compared(target, setting.base, setting.announce)
        subject = cls(
            target=target, executor=executor, limit=limit, comparison=comparison, explains=not setting.sweeping
        )
        return subject, repro

    @classmethod
    def case_of(cls, repro: Repro) -> Case:
        return repro.case

    @classmethod
    def regimes_of(cls, repro: Repro) -> frozenset[str]:
        return regimes_of(repro.case)

    @classmethod
    def smaller(cls, repro: Repro, case: Case, result: JudgedCase, issue: str | None, record: ShrinkRecord) -> Repro:
        signature, evidence = _found(result.outcome)
        if signature == repro.signature:
            evidence = with_recorded_diagnosis(evidence, repro.evidence)
        return msgspec.structs.replace(repro, case=case, signature=signature, evidence=evidence, shrink=record)

    @classmethod
    def announce_downloads(cls, targets: Sequence[str], announce: Callable[[str], None]) -> None:
        announce_downloads(targets, announce)

    def judge_file(self, worker: WorkerProcess, repro: Repro) -> JudgedCase:
        """If the finding may rest on an order that this executor does not repeat, races are watched for as well."""
        signature, case = repro.signature, repro.case
        watched = signature.instrumented or rests_on_order(
            signature, repro.origin.executor, case.execution, self.executor
        )
        question = CaseQuestion(relations_to_ask(signature), instrumented=watched, explain=self.explains)
        return judged(worker, case, question)

    def reach(self, worker: WorkerProcess, repro: Repro) -> tuple[JudgedCase, frozenset[str]]:
        """Regimes that were judged, and kernel lines that ran where the executor knows them."""
        forget_lines(worker)
        result = self.judge_file(worker, repro)
        regimes = with_regimes(repro.case, result.outcome).regimes
        executed, _ = kernel_lines(worker)
        lines = (f"{file}:{line} ({function})" for file, function, line in executed)
        return result, frozenset((*(f"regime {name}" for name in regimes), *lines))


def relations_to_ask(signature: Signature) -> tuple[str, ...]:
    """The relation that has to be checked for a file's finding to show, if one saw it. Raises InvalidCase if there is
    none of that name."""
    name = signature.relation
    if name is None:
        return ()
    try:
        return (relation(name).name,)
    except UnknownRelation as error:
        raise InvalidCase(f"the file's signature names an {error}") from error


def _found(outcome: Outcome) -> tuple[Signature, Evidence]:
    failure = outcome.failure
    assert failure is not None
    assert failure.signature is not None
    assert failure.evidence is not None
    return failure.signature, failure.evidence


def _not_judged(outcome: Outcome, signature: Signature, comparison: Comparison) -> str | None:
    """Why a passing outcome says nothing about a finding; None if it does. Where an exception is the finding, a refusal
    is an answer: it comes before memory changes."""
    for verdict in (*outcome.verdicts, *outcome.relations):
        if verdict.judged or (verdict.refused and signature.oracle == "exception"):
            continue
        lost = comparison.reason(verdict.operation) if verdict.reason == "lacks-operation" else None
        return verdict.why_not if lost is None else lost
    return None


def _after(tally: Tally, prefix: str) -> Iterator[tuple[str, int]]:
    """Counters that begin with `prefix`, by the rest of their names."""
    return ((name.removeprefix(prefix), count) for name, count in tally.counters.items() if name.startswith(prefix))


def _lacks(tally: Tally, operation: str) -> str | None:
    """The target's most frequent message when it lacks an operation."""
    words = dict(_after(tally, f"lacks {operation}: "))
    return max(words, key=lambda text: words[text]) if words else None

"""Step sequences as a subject: one release's scheduler, and sequences from a recipe or a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import msgspec

from harness import __version__
from harness.case import InvalidCase
from harness.case.production_defaults import deviations
from harness.case.sequence import SequenceCase
from harness.check.outcome import Evidence, Signature
from harness.generators.sequences.events import SEQUENCE_GENERATOR_VERSION
from harness.issues.registry import SEQUENCE_ISSUES, TOGETHER, current_name
from harness.kernels.executors.registry import executor_class, recorded_executor_name
from harness.kernels.targets.base import UnknownTarget
from harness.kernels.targets.download_size import announce_downloads
from harness.kernels.targets.registry import prepare
from harness.kernels.targets.vllm.base_release import (
    NOT_COMPARED,
    BaseRelease,
    base_of,
    how_to_have_one,
    is_compared,
    sources_of,
)
from harness.kernels.targets.vllm.edits import why_not_watched
from harness.kernels.targets.vllm.known_releases import RELEASES
from harness.kernels.targets.vllm.scheduling.sources import check as check_target
from harness.kernels.targets.vllm.scheduling.sources import require_packages, whole_tree
from harness.kernels.targets.vllm.sources import VLLM_WHOLE
from harness.oracles.states.violation import Violation
from harness.refusal import Refusal
from harness.repro import Origin, SequenceRepro, ShrinkRecord
from harness.repro.format import DIGITS
from harness.sequences.classifying import SequencePlan, classify
from harness.sequences.controls import Controls
from harness.sequences.counters import below_threshold
from harness.sequences.judge import AboutDefaults, AboutEdits
from harness.sequences.kernels import KernelChoice, KernelSide
from harness.sequences.lost import LOST as LOST_NAME
from harness.sequences.recipe import SequenceRecipe, sequence_at
from harness.sequences.result import RunResult
from harness.sequences.sequence_subject import SequenceSubject, finding_of, settings_of
from harness.sequences.summary import SequenceSummary, never_run
from harness.sequences.variations import variations
from harness.sequences.verdicts import bytes_not_judged, evidence_of, not_judged, signature_of
from harness.sequences.worker import LIMIT_SECONDS, assignment, check, defaults_of, recipe_text
from harness.subject.edits import EditedLines, EditTally
from harness.subject.entry import Tally
from harness.subject.standing import Answer
from harness.subject.subject import Ended, Kept, Key, NotApplicable, Replayed, Setting, Variation
from harness.subject.trust import may_choose, unnamed_target
from harness.text import counted, one_line
from harness.worker.losses import WorkerLost
from harness.worker.process import Assignment, WorkerProcess

PACKAGES_MISSING = "step sequences cannot run here: packages are missing"


@dataclass(kw_only=True)
class StepSequences(SequenceSubject):
    """`controls` are those that were asked for, `kernel_side` says where the kernel arguments go. `named_fixes` are
    fixes that the user asked for by name; a line says if they change nothing. `base` is the target's base release
    (None: `target` is a release, or no release is here to compare with). `shared_defaults` are
    those of all targets of a campaign so far: they judge the same sequences, those of the first."""

    name: ClassVar[str] = "sequence"
    summary_type = SequenceSummary
    journal: ClassVar[str] = "sequences.journal"
    file_patterns: ClassVar[tuple[str, ...]] = (f"sequence-*-{DIGITS}.json",)

    recipe: SequenceRecipe | None = None
    kernel_side: KernelSide = field(default_factory=KernelSide)
    limit: float = LIMIT_SECONDS
    named_fixes: tuple[str, ...] = ()
    loads: str | None = None
    shared_defaults: list[AboutDefaults] | None = None
    _edits: AboutEdits = field(default_factory=lambda: AboutEdits([], []), init=False)
    _ran: EditTally = field(default_factory=EditTally, init=False)
    _idle_fixes: list[str] = field(default_factory=list, init=False)

    block = 8
    shrink_budget = 600

    def __post_init__(self) -> None:
        kernels = self.kernel_side.kernels
        self._act()
        self.executor = "symbolic" if kernels is None else kernels.executor
        self.seed = 0 if self.recipe is None else self.recipe.seed

    @property
    def planted(self) -> tuple[str, ...]:
        return self.controls.faults

    @classmethod
    def signature_of(cls, violation: Violation) -> Signature:
        return signature_of(violation)

    @classmethod
    def evidence_of(cls, violation: Violation, trace: str = "") -> Evidence:
        return evidence_of(violation, trace)

    @property
    def _recipe(self) -> SequenceRecipe:
        assert self.recipe is not None, "set up for a file"
        return self.recipe

    def title(self, limit: str, workers: str) -> str:
        recipe = self._recipe
        pinned = {name: value for name, value in msgspec.structs.asdict(recipe.pins).items() if value is not None}
        pins = "pins " + ",".join(f"{name}={_pin(value)}" for name, value in pinned.items()) if pinned else "no pins"
        planted = "+".join([self.target, *self.controls.faults])
        made_from = "" if self._base is None else f" ({self.base})"
        return f"{planted}{made_from}: step sequences, seed {recipe.seed}, {pins}, {limit}, {workers}"

    def identity(self) -> dict[str, object]:
        return {
            "target": self.target,
            # The target has the defaults, and is not known yet when a journal is opened.
            "recipe": msgspec.to_builtins(msgspec.structs.replace(self._recipe, defaults=None)),
            "controls": msgspec.to_builtins(self.controls),
            "kernels": msgspec.to_builtins(self.kernel_side.kernels),
            "generator": SEQUENCE_GENERATOR_VERSION,
            **({} if self._base is None else {"base": self._base}),
            **sources_of(self.target.partition("+")[0]),
        }

    def assignment(self) -> Assignment:
        return assignment(self.target, self.kernel_side, self.base)

    def prepare(self, worker: WorkerProcess, notice: Callable[[str], None]) -> None:
        self._ask_about_edits(worker, notice)
        about = defaults_of(worker)
        if self.shared_defaults is not None:
            self.shared_defaults.append(about)
            about = self.shared_defaults[0]
        if about.unknown is not None:
            notice(f"production's defaults of {self.target} are not known, so any settings are drawn: {about.unknown}")
        self.recipe = msgspec.structs.replace(self._recipe, defaults=about.defaults)
        fixes = self._on.fixes
        muted = [fix for fix in self.named_fixes if fix not in fixes]
        if muted and self.base is not None:
            notice(f"{self.base.name}, the base release, does not have {', '.join(muted)}: these fixes stay off")
        if not fixes:
            return
        try:
            answer = worker.ask("effects", msgspec.msgpack.encode(fixes))
        except WorkerLost as lost:
            notice(f"a worker was lost while it built an engine ({lost.violation}): which fixes apply is not known")
            return
        self._idle_fixes = msgspec.msgpack.decode(answer, type=list[str])
        idle = [fix for fix in self._idle_fixes if fix in self.named_fixes]
        if idle:
            notice(f"{self.target} has nothing that these fixes change: {', '.join(idle)}")

    def finish(
        self, workers: Sequence[WorkerProcess], notice: Callable[[str], None], *, lost: bool, resumed: bool
    ) -> None:
        if self.base is not None and (self._ran.collect(workers) or lost or resumed):
            notice("edited lines leave out what ran in workers that were lost, or in a part that was killed")

    def remembered(self) -> bytes:
        return msgspec.json.encode(self._ran.remembered())

    def recall(self, said: bytes) -> None:
        self._ran.recall(msgspec.json.decode(said, type=list[EditedLines]))

    def _ask_about_edits(self, worker: WorkerProcess, notice: Callable[[str], None]) -> None:
        if self._base is None:
            return
        try:
            self._edits = msgspec.msgpack.decode(
                worker.ask("edits", msgspec.msgpack.encode(self._on.fixes)), type=AboutEdits
            )
        except WorkerLost as lost:
            notice(f"a worker was lost before the first sequence ({lost.violation}): what is lost is not known")

    # Cases.

    def recipe_text(self) -> bytes:
        return recipe_text(self._recipe, self._on)

    def draw(self, index: int) -> SequenceCase:
        return sequence_at(self._recipe, index)

    # Findings.

    def failed(self, case: SequenceCase, index: int, signature: Signature, evidence: Evidence) -> SequenceRepro:
        return SequenceRepro(
            signature=signature,
            evidence=evidence,
            origin=self._origin(index),
            fixes=self._on.fixes,
            faults=self.controls.faults,
            kernels=None if self.kernel_side.kernels is None else self.kernel_side.kernels.target,
            sequence=case,
        )

    def _origin(self, index: int | None) -> Origin:
        return Origin(
            target=self.target,
            executor=self.executor,
            harness_version=__version__,
            generator_version=SEQUENCE_GENERATOR_VERSION,
            seed=self._recipe.seed,
            index=index,
        )

    def repro(
        self, case: SequenceCase, result: RunResult, index: int | None, issue: str | None, record: ShrinkRecord | None
    ) -> SequenceRepro:
        assert result.violation is not None
        kernels = self.kernel_side.kernels
        return SequenceRepro(
            signature=signature_of(result.violation),
            evidence=evidence_of(result.violation, result.trace),
            origin=self._origin(index),
            fixes=self._on.fixes,
            faults=self.controls.faults,
            issue=issue,
            kernels=None if kernels is None else kernels.target,
            settings=settings_of(result),
            shrink=record,
            sequence=case,
        )

    def drawn_stem(self, repro: SequenceRepro) -> str:
        return repro.file_name.rsplit("-", 2)[0]  # without the runner

    def classify(self, worker: WorkerProcess, case: SequenceCase, signature: str) -> str | None:
        return classify(worker, case, self._on, signature, self._base)

    def plan(self, worker: WorkerProcess, key: Key, result: RunResult) -> SequencePlan:
        return SequencePlan(worker, key.signature, key.issue, self._on, self._base)

    # Answers.

    def summary(self, tally: Tally, findings: Sequence[tuple[Key, Kept]], ended: Ended) -> SequenceSummary:
        recipe, counters = self._recipe, tally.counters
        missing = below_threshold(counters, tally.steps, recipe.pins.spec_method != "none")
        if self.kernel_side.kernels is not None and tally.steps and not counters["kernel launches"]:
            missing.append("no kernel was launched")
        if not tally.steps:
            missing.append("no step was run")
        if self.base is None and is_compared(self.target.partition("+")[0]):
            advice = how_to_have_one(self.target.partition("+")[0])
            missing.append(
                f"{NOT_COMPARED}, so what is lost, and old issues that are back, are not seen. What helps: {advice}"
            )
        missing += ended.missing
        lost = [*self._edits.lost]
        lost += [reason.removeprefix(f"{LOST_NAME} ") for reason in tally.skipped if reason.startswith(LOST_NAME)]
        lost = list(dict.fromkeys(lost))
        # The base release's host code runs: that of the target has changed so that it does not.
        lost += never_run(counters) if self._base is not None else []
        return SequenceSummary(
            target=self.target,
            seed=recipe.seed,
            sequences=tally.cases,
            steps=tally.steps,
            steps_per_second=round(tally.steps / tally.seconds, 1) if tally.seconds else 0.0,
            seconds=round(ended.seconds, 2),
            whole_seconds=round(ended.whole_seconds, 2),
            in_this_part=ended.judged,
            skipped=dict(sorted(tally.skipped.items())),
            counters=dict(sorted(counters.items())),
            fixes=list(self._on.fixes),
            fixes_without_effect=self._idle_fixes,
            findings=[finding_of(key, kept) for key, kept in findings],
            faults=self.faults_behind(findings),
            missing=missing,
            harness_failures=ended.harness_failures,
            ended_early=ended.early,
            exit_status=ended.exit_status(bool(findings), bool(missing or lost)),
            base=self.base,
            standing=ended.standing,
            lost=lost,
            changed_rules=self._edits.rules,
            edited=None if self.base is None else self._ran.coverage(why_not_watched(self.base)),
        )

    def replayed(self, repro: SequenceRepro, result: RunResult) -> Replayed:
        if result.violation is not None:
            signature = signature_of(result.violation)
            same, summary = signature == repro.signature, result.violation.summary
            return Replayed(
                "FAILED",
                self.target,
                self.executor,
                same,
                str(signature),
                summary,
                result,
                settings=settings_of(result),
                edits=result.edits,
            )
        kernels = self.kernel_side.kernels
        reason = not_judged(repro.signature, result)
        if reason is None:
            reason = bytes_not_judged(
                repro.signature, result, repro.origin.executor, None if kernels is None else kernels.executor
            )
        summary = reason or f"{counted(result.steps, 'step')} without violation"
        answer: Answer = "FIXED" if reason is None else "SKIPPED"
        return Replayed(answer, self.target, self.executor, False, None, summary, result, reason)

    # Variations.

    has_variations: ClassVar[bool] = True

    def variations(self, worker: WorkerProcess, repro: SequenceRepro, result: RunResult) -> Iterator[Variation]:
        """Of a file that fails, only those that come closer to the defaults. None of a file of an issue that this
        version does not know: whether another form shows that issue could not be said."""
        defaults = defaults_of(worker).defaults
        if defaults is None or not _known(repro.issue):
            return
        failed = result.violation is not None and str(signature_of(result.violation)) == str(repro.signature)
        for words, case in variations(repro.sequence, defaults):
            if not failed or len(deviations(case, defaults)) < len(result.settings or ()):
                yield Variation(words, msgspec.structs.replace(repro, sequence=case))

    def shows(self, worker: WorkerProcess, repro: SequenceRepro, result: RunResult) -> bool:
        """The same signature, and the same issue: with its fix as well it passes. The release as it is has both, too: a
        fix of another issue may bring in a rule of a later release, and with it an issue that this one does not have.
        """
        if result.violation is None or str(signature_of(result.violation)) != str(repro.signature):
            return False
        fix = None if repro.issue is None else current_name(repro.issue)
        if fix is None:
            return True
        if not _known(repro.issue):
            return False
        for others in dict.fromkeys((self._on.fixes, ())):
            without = msgspec.structs.replace(self._on, fixes=others)
            found = result if others else check(worker, repro.sequence, without)
            if found.violation is None or str(signature_of(found.violation)) != str(repro.signature):
                return False
            fixed = msgspec.structs.replace(self._on, fixes=(*others, *fix.split(TOGETHER)))
            if check(worker, repro.sequence, fixed).violation is not None:
                return False
        return True

    # Files.

    @classmethod
    def of_file(cls, repro: SequenceRepro, setting: Setting) -> tuple[StepSequences, SequenceRepro]:
        target, origin = _target_of(repro, setting)
        kernel_side = KernelSide()
        if repro.kernels is not None:
            name = repro.kernels if setting.target is None else setting.target
            if setting.target is None and not may_choose(name):
                raise unnamed_target(name)
            prepare(name, setting.announce)
            executor = setting.executor or recorded_executor_name(repro.origin.executor, setting.announce)
            executor_class(executor)
            kernel_side = KernelSide(KernelChoice(name, executor))
        limit = LIMIT_SECONDS if setting.limit is None else setting.limit
        controls = Controls(faults=repro.faults, fixes=repro.fixes)
        base = base_release(target, setting.base, setting.announce)
        subject = cls(target=target, controls=controls, kernel_side=kernel_side, limit=limit, loads=origin, base=base)
        return subject, repro

    @classmethod
    def require_installed(cls, targets: Sequence[str]) -> None:
        if any(cannot_be_driven(target) is None for target in targets):
            require_packages()

    @classmethod
    def announce_downloads(cls, targets: Sequence[str], announce: Callable[[str], None]) -> None:
        announce_downloads([one for one in targets if cannot_be_driven(one) is None], announce, VLLM_WHOLE)


def sequence_target(name: str) -> str:
    """The release whose scheduler runs: the target if it has one, else the newest one that the harness knows."""
    return f"vllm=={RELEASES[-1]}" if name in ("", "builtin") else name


def cannot_be_driven(target: str) -> str | None:
    """Why a target has no scheduler that the harness can drive; None if it may have one. This is quick and downloads
    nothing."""
    try:
        check_target(target.partition("+")[0])
    except UnknownTarget as refusal:
        return str(refusal)
    return None


def _target_of(repro: SequenceRepro, setting: Setting) -> tuple[str, str]:
    """The release that a file runs on, downloaded if necessary, and its name in messages. Raises InvalidCase,
    UnknownTarget or NotApplicable."""
    if setting.target is None:
        name = repro.origin.target
        base = name.partition("+")[0]
        if base in ("", "builtin"):
            on = f"{name!r}, which has no scheduler" if name else "no target"
            raise InvalidCase(
                f"the file's origin names {on}: say with --target on which release the sequence is to run"
            )
        if not name.startswith("vllm=="):
            raise unnamed_target(name)
    elif setting.sweeping:
        name = setting.target.partition("+")[0]
        reason = cannot_be_driven(name)
        if reason is not None:
            raise NotApplicable(one_line(reason))
        try:
            require_packages()
        except UnknownTarget as missing:  # a sweep reports once what to install
            raise Refusal(PACKAGES_MISSING) from missing
    else:
        name = sequence_target(setting.target.partition("+")[0])
    return name, require_driven(name, setting.announce)


def base_release(target: str, wanted: str | None, announce: Callable[[str], None]) -> BaseRelease | None:
    """The base release of a target whose files are here. Raises UnknownTarget."""
    directory = whole_tree(target).directory if is_compared(target) else None
    return base_of(target, wanted, announce, directory, whole=True)


def require_driven(target: str, announce: Callable[[str], None]) -> str:
    """The target as messages name it. Raises UnknownTarget, with one line, if sequences cannot run on it here."""
    require_packages()
    return whole_tree(target, announce).origin


def _pin(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _known(issue: str | None) -> bool:
    """Whether this version has the fix of an issue, or of each that are only there together; so has no issue."""
    fix = None if issue is None else current_name(issue)
    return fix is None or {*fix.split(TOGETHER)} <= {one.name for one in SEQUENCE_ISSUES}

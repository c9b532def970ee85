"""Confirming is running a finding of the symbolic device on a whole engine: are tokens wrong?

First the sequence is carried over (`carrying.py`), and the symbolic run has to fail on the carried form: with no fix
on, as engines have none, and in a way that the finding's own fix takes away. Then the engine says its tokens, and the
plain run says which are due. Tokens differ where the plain run's best token is ahead of the second by more than the
noise; where it is not, the step is a tie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from harness.case.sequence import SequenceCase
from harness.end_to_end.builds import Build
from harness.end_to_end.carrying import CannotCarry, Carried, carried, is_probe, require_engine, with_readers
from harness.end_to_end.engine_process import EngineProcess
from harness.end_to_end.messages import EngineFacts, ModelKind, RequestTokens, RunSequence, SequenceAnswer, model_of
from harness.issues.registry import DEFAULT_FIXES, issues_of
from harness.oracles.states.violation import EXCEPTION, LOST, NO_PROGRESS
from harness.repro import SequenceRepro
from harness.sequences.controls import Controls
from harness.sequences.result import RunResult
from harness.sequences.verdicts import signature_of
from harness.sequences.worker import SequenceWorker
from harness.text import counted, one_line
from harness.worker.losses import WorkerLost, WorkerRefused

Answer = Literal["CONFIRMED", "NOT CONFIRMED", "CANNOT"]

LEAST_MARGIN = 1e-4
"""Least distance of two logits that is no tie, whatever the noise is."""

NOISES = 100
"""A distance counts if it is so many times the noise of clean runs."""

MOST_FORMS = 6
"""Maximum number of carried forms of one file that are run on an engine."""


MOST_READ = 6
"""In so many forms in which nothing reads a wrong entry, a request that does is tried."""


class WrongToken(msgspec.Struct, frozen=True, kw_only=True):
    """The first wrong token of a request: `position` counts from the request's first token, `output` from its first
    output. `margin` is how far the plain run's token is ahead."""

    request: int
    output: int
    position: int
    said: int | None
    due: int
    margin: float
    probe: bool = False

    @property
    def text(self) -> str:
        """For people."""
        who = "a request added to see what the cache holds" if self.probe else f"request {self.request}"
        said = "nothing" if self.said is None else f"token {self.said}"
        return (
            f"{who}, output {self.output} (position {self.position}): the engine says {said}, the same model run"
            f" plainly says {self.due}, whose logit there is {self.margin:.2g} above the second best"
        )


class Confirmation(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine says of a finding. `predicted` is the symbolic device's violation on the form `carried`, which was
    made as `how` says. `ties` counts requests that differ first where two tokens are as good."""

    answer: Answer
    target: str
    build: str = ""
    reason: str | None = None
    issue: str | None = None
    predicted: str | None = None
    predicted_request: str | None = None
    wrong: tuple[WrongToken, ...] = ()
    ties: int = 0
    raised: str | None = None
    kernel_faults: tuple[str, ...] = ()
    kernel_launches: int = 0
    steps: int = 0
    forms: int = 0
    how: str | None = None
    carried: SequenceCase | None = None
    replaced: tuple[str, ...] = ()
    noise: float = 0.0

    @property
    def as_predicted(self) -> bool:
        """Whether the request that the symbolic device named is among those with wrong tokens."""
        return any(self.predicted_request == f"request {one.request}" for one in self.wrong)


class Confirmer:
    """Confirms findings on one target. Raises what workers raise, and Refusal if the model is not sensitive."""

    def __init__(
        self, target: str, build: Build, engine: EngineProcess, symbolic: SequenceWorker, tried: Callable[[str], None]
    ) -> None:
        self._target, self._build, self._engine, self._symbolic, self._tried = target, build, engine, symbolic, tried
        self._facts: dict[tuple[ModelKind, int], EngineFacts] = {}
        self._sensitive: set[ModelKind] = set()

    def confirm(self, repro: SequenceRepro) -> Confirmation:
        """The answer for one file."""
        kind = repro.signature.violation
        if kind.startswith(LOST) or kind == NO_PROGRESS:
            return self._cannot(repro, f"{kind} is not about tokens")
        best: Confirmation | None = None
        number = unread = 0
        try:
            for form, result in self._failing_forms(repro):
                if not self._shows(form):
                    unread += 1
                    read = self._read_soon(repro, form, result) if unread <= MOST_READ else None
                    if read is None:
                        continue
                    form, result = read  # noqa: PLW2901 - the same form, with a request that reads the entry
                number += 1
                answer = self._run(repro, form, result, number)
                if answer.answer == "CONFIRMED":
                    return answer
                best = best if best is not None and answer.answer == "CANNOT" else answer
                if number == MOST_FORMS:
                    break
        except CannotCarry as cannot:
            return self._cannot(repro, str(cannot))
        reason = "no form of the sequence in blocks of 32 fails on the symbolic device"
        if unread:
            reason = (
                f"{counted(unread, 'form')} of the sequence fail on the symbolic device, and nothing reads the block"
            )
        elif best is None and self._check(repro.sequence, ()) is None:
            reason += ", nor does the file itself in this release"
        return best or self._cannot(repro, reason)

    def _failing_forms(self, repro: SequenceRepro) -> Iterator[tuple[Carried, RunResult]]:
        """The carried forms that the symbolic device finds wrong, for the reason that the file is about."""
        require_engine(repro.sequence)
        config = repro.sequence.config
        kind = (model_of(config), config.num_spec)
        if kind not in self._facts:
            self._facts[kind] = self._engine.facts(*kind)
        for form in carried(repro.sequence, self._facts[kind]):
            self._tried(form.how)
            bare = self._check(form.case, ())
            if bare is None:
                continue
            issues = {issue.name for issue in issues_of(repro.issue)}
            if not issues:  # a new finding: no fix may take it away
                if self._check(form.case, tuple(DEFAULT_FIXES)) is not None:
                    yield form, bare
                continue
            others = tuple(fix for fix in DEFAULT_FIXES if fix not in issues)
            alone = self._check(form.case, others)
            if alone is not None and _same(alone, bare) and self._check(form.case, tuple(DEFAULT_FIXES)) is None:
                yield form, bare

    def _shows(self, form: Carried) -> bool:
        """Whether anything goes wrong besides what the prefix cache holds: an entry that is never read changes no
        token."""
        return self._check(form.case, (), entries=False) is not None

    def _read_soon(self, repro: SequenceRepro, form: Carried, result: RunResult) -> tuple[Carried, RunResult] | None:
        """The form with a request that reads the wrong entry soon after it is made, if that shows the file's issue."""
        assert result.violation is not None
        names = {issue.name for issue in issues_of(repro.issue)}
        for reader in with_readers(form, result.violation.step):
            bare = self._check(reader.case, (), entries=False)
            if bare is None:
                continue
            if not names or (
                self._check(reader.case, tuple(fix for fix in DEFAULT_FIXES if fix not in names), entries=False)
                and self._check(reader.case, tuple(DEFAULT_FIXES)) is None
            ):
                return reader, bare
        return None

    def _check(self, case: SequenceCase, fixes: tuple[str, ...], *, entries: bool = True) -> RunResult | None:
        """The symbolic run of a form, if it finds something wrong."""
        result = self._symbolic.check(case, Controls(fixes=fixes, check_entries=entries))
        return result if result.violation is not None else None

    def _run(self, repro: SequenceRepro, form: Carried, result: RunResult, number: int) -> Confirmation:
        violation = result.violation
        assert violation is not None
        about = Confirmation(
            answer="CANNOT",
            target=self._target,
            build=self._build.description,
            issue=repro.issue,
            predicted=violation.summary,
            predicted_request=violation.request,
            how=form.how,
            carried=form.case,
            forms=number,
        )
        try:
            model = model_of(form.case.config)
            if model not in self._sensitive:
                self._engine.require_sensitive(model)
                self._sensitive.add(model)
            answer = self._engine.run(RunSequence(sequence=form.case))
        except WorkerLost as lost:
            return msgspec.structs.replace(about, reason=f"the engine's process was lost ({lost.violation})")
        except WorkerRefused as refused:
            return msgspec.structs.replace(about, reason=one_line(refused))
        if answer.refused is not None:
            return msgspec.structs.replace(about, reason=answer.refused)
        wrong, ties = differences(answer)
        bad = bool(wrong or answer.kernel_faults)
        raised = answer.raised is not None and violation.kind.startswith(EXCEPTION)
        return msgspec.structs.replace(
            about,
            answer="CONFIRMED" if bad or raised else "NOT CONFIRMED",
            wrong=tuple(wrong),
            ties=ties,
            raised=answer.raised,
            kernel_faults=tuple(answer.kernel_faults),
            kernel_launches=answer.kernel_launches,
            steps=answer.steps,
            replaced=tuple(answer.replaced),
            noise=answer.noise,
        )

    def _cannot(self, repro: SequenceRepro, reason: str) -> Confirmation:
        return Confirmation(
            answer="CANNOT", target=self._target, build=self._build.description, issue=repro.issue, reason=reason
        )


def differences(answer: SequenceAnswer) -> tuple[list[WrongToken], int]:
    """The first wrong token of each request, those of the sequence first, and how many requests are ties."""
    least = max(LEAST_MARGIN, NOISES * answer.noise)
    wrong, ties = [], 0
    for request in sorted(answer.requests, key=lambda one: one.request):
        found = _first_difference(request)
        if found is None:
            continue
        if found.margin < least:
            ties += 1
        else:
            wrong.append(found)
    return wrong, ties


def _first_difference(request: RequestTokens) -> WrongToken | None:
    for place, (said, due) in enumerate(zip(request.said, request.due, strict=False)):
        if said != due:
            return WrongToken(
                request=request.request,
                output=place,
                position=request.prompt + place,
                said=said,
                due=due,
                margin=request.margins[place],
                probe=is_probe(request.request),
            )
    return None


def _same(one: RunResult, other: RunResult) -> bool:
    assert one.violation is not None
    assert other.violation is not None
    return signature_of(one.violation) == signature_of(other.violation)

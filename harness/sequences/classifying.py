"""Classifying a violation is finding the known issue that causes it: the fix that takes it away.

So a smaller case shows the same finding if it has the same signature and the same fix takes it away. For a finding that
no fix takes away, no fix may take the smaller one away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from harness.case.sequence import SequenceCase, encode_sequence
from harness.check.outcome import Signature
from harness.issues.registry import SEQUENCE_ISSUES, TOGETHER, issues_of
from harness.issues.sequence_issue import SequenceIssue
from harness.oracles.states.violation import HOST_CODE_DIFFERS, LOST, Violation
from harness.sequences.controls import Controls
from harness.sequences.result import RunResult
from harness.sequences.verdicts import signature_of
from harness.sequences.worker import check, defaults_of
from harness.shrink.driver import Judged
from harness.shrink.proposals import Pass
from harness.shrink.sequences import SequenceShrinking
from harness.worker.memory import MEMORY_LIMIT
from harness.worker.process import WorkerProcess


def _candidates(signature: str, base: str | None) -> list[SequenceIssue]:
    """The issues that may be behind a finding, on a target that was made from the release `base` (None: on a release,
    or where that is not known). Those that the base has come first.

    Host code and our model of it have the same issues, so a difference between them is not a known issue, even if a fix
    that keeps the place from being reached would take it away. An issue that the base does not have, the model does not
    have either.
    """
    back = [] if base is None else [issue for issue in SEQUENCE_ISSUES if issue.is_fixed_in(base)]
    if f"/{HOST_CODE_DIFFERS}/" in signature:
        return back
    return [issue for issue in SEQUENCE_ISSUES if issue not in back] + back


def classify(
    worker: WorkerProcess, case: SequenceCase, controls: Controls, signature: str, base: str | None = None
) -> str | None:
    """The known issue whose fix alone takes the violation away, or the smallest set that does together; None if there
    is none. `base` is the base release of the target, if it is not a release itself."""
    candidates = _candidates(signature, base)
    off = [issue for issue in candidates if issue.name not in controls.fixes and issue.reached_by(case)]

    def clear(issues: list[SequenceIssue]) -> bool:
        fixes = (*controls.fixes, *(issue.name for issue in issues))
        return check(worker, case, msgspec.structs.replace(controls, fixes=fixes)).violation is None

    for issue in off:
        if clear([issue]):
            return issue.name
    if len(off) < 2 or not clear(off):
        return None
    for issue in list(off):
        rest = [other for other in off if other is not issue]
        if clear(rest):
            off = rest
    return TOGETHER.join(issue.name for issue in off)


def classify_again(
    worker: WorkerProcess,
    case: SequenceCase,
    controls: Controls,
    signature: str,
    issue: str | None,
    base: str | None = None,
) -> str | None:
    """The known issue of a smaller case whose first form was `issue`: if several explained that one together, fewer may
    be enough."""
    if issue is None or TOGETHER not in issue:
        return issue
    return classify(worker, case, controls, signature, base) or issue


class SequencePlan:
    """Shrinks sequences that show a finding. The signature must stay the same; for a known issue, its fix must take the
    finding away; for a new one, all fixes together must not, or it could shrink into a known issue."""

    def __init__(
        self,
        worker: WorkerProcess,
        signature: str,
        issue: str | None,
        controls: Controls,
        base: str | None = None,
        named: Callable[[Violation], Signature] = signature_of,
    ) -> None:
        """`named` is what violations are called."""
        self._shrinking = SequenceShrinking(defaults_of(worker).defaults)
        self._named = named
        self.passes: Sequence[Pass[SequenceCase]] = self._shrinking.passes
        self._worker, self._signature, self._is_known, self._controls = worker, signature, issue is not None, controls
        wanted = [one.name for one in (_candidates(signature, base) if issue is None else issues_of(issue))]
        more = tuple(fix for fix in wanted if fix not in controls.fixes)
        self._fixed = msgspec.structs.replace(controls, fixes=(*controls.fixes, *more)) if more else None

    def encode(self, case: SequenceCase) -> bytes:
        return encode_sequence(case)

    def size(self, case: SequenceCase) -> tuple[Any, ...]:
        return self._shrinking.size(case)

    def require_valid(self, case: SequenceCase) -> None:
        """Do nothing: a sequence that can be constructed is valid."""

    def judge(self, case: SequenceCase) -> Judged[RunResult]:
        result = check(self._worker, case, self._controls)
        violation = result.violation
        if violation is None or str(self._named(violation)) != self._signature:
            return Judged(result, same=False, hung=_hung(result))
        if self._fixed is None:
            return Judged(result, same=True, hung=_hung(result))
        fixed = check(self._worker, case, self._fixed)
        same = (fixed.violation is None) == self._is_known
        return Judged(result, same=same, hung=_hung(result) or _hung(fixed))


def _hung(result: RunResult) -> bool:
    return result.violation is not None and result.violation.kind in (f"{LOST}hang", f"{LOST}{MEMORY_LIMIT}")

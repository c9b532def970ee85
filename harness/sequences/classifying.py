"""Classifying a violation is finding the known issue that causes it: the fix switch that takes it away.

A judge that asks whether a smaller case shows the same finding therefore asks both: the same signature, and that the
same fix takes it away. Of what no fix takes away the same has to be true.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from harness.case.sequence import SequenceCase
from harness.oracles.meaning.violation import HOST_CODE_DIFFERS
from harness.sequences.controls import Controls
from harness.sequences.known import DEFAULT_FIXES, KNOWN, TOGETHER, KnownIssue, fixes_of
from harness.sequences.process import SequenceProcess
from harness.sequences.verdicts import signature_of


def _may_be_known(signature: str) -> bool:
    """Host code and our model of it have the same issues: where they differ, it is none of those, though a fix that
    keeps the place from being reached would take it away."""
    return f"/{HOST_CODE_DIFFERS}/" not in signature


def classify(child: SequenceProcess, case: SequenceCase, controls: Controls, signature: str) -> str | None:
    """The known issue whose fix alone takes the violation away, or the fewest that do together; None if none do."""
    if not _may_be_known(signature):
        return None
    off = [issue for issue in KNOWN if issue.fix not in controls.fixes and issue.reaches(case)]

    def clear(issues: list[KnownIssue]) -> bool:
        fixes = (*controls.fixes, *(issue.fix for issue in issues))
        return child.check(case, msgspec.structs.replace(controls, fixes=fixes)).violation is None

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
    child: SequenceProcess, case: SequenceCase, controls: Controls, signature: str, issue: str | None
) -> str | None:
    """The known issue of a smaller case whose first form was `issue`: of several that explained that one together, one
    may be enough."""
    if issue is None or TOGETHER not in issue:
        return issue
    return classify(child, case, controls, signature) or issue


def same_finding(
    child: SequenceProcess, signature: str, issue: str | None, controls: Controls
) -> Callable[[SequenceCase], bool]:
    """Whether a case shows the same: the signature, for a known issue that its fix takes it away, and for a new one
    that all fixes together do not: else a new issue could shrink into a known one."""
    wanted = fixes_of(issue) if issue is not None else DEFAULT_FIXES if _may_be_known(signature) else ()
    more = tuple(fix for fix in wanted if fix not in controls.fixes)
    fixed = msgspec.structs.replace(controls, fixes=(*controls.fixes, *more)) if more else None

    def holds(case: SequenceCase) -> bool:
        violation = child.check(case, controls).violation
        if violation is None or str(signature_of(violation)) != signature:
            return False
        return fixed is None or (child.check(case, fixed).violation is None) == (issue is not None)

    return holds

"""Classifying a violation is finding the known issue that causes it: the fix switch that takes it away.

A judge that asks whether a smaller case shows the same finding therefore asks both: the same signature, and that the
same fix takes it away.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from harness.case.sequence import SequenceCase
from harness.sequences.controls import Controls
from harness.sequences.known import KNOWN, TOGETHER, KnownIssue, fixes_of
from harness.sequences.process import SequenceProcess
from harness.sequences.verdicts import signature_of


def classify(child: SequenceProcess, case: SequenceCase, controls: Controls) -> str | None:
    """The known issue whose fix alone takes the violation away, or the fewest that do together; None if none do."""
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


def same_finding(
    child: SequenceProcess, signature: str, issue: str | None, controls: Controls
) -> Callable[[SequenceCase], bool]:
    """Whether a case shows the same: the signature, and for a known issue that its fix takes it away."""
    fixes = fixes_of(issue)
    fixed = msgspec.structs.replace(controls, fixes=(*controls.fixes, *fixes)) if fixes else None

    def holds(case: SequenceCase) -> bool:
        violation = child.check(case, controls).violation
        if violation is None or str(signature_of(violation)) != signature:
            return False
        return fixed is None or child.check(case, fixed).violation is None

    return holds

"""ds-bias-refused: the scalar copies of the V1 runner end in an assertion where a window in DS layout has to shift.

The harness does not draw such cases for these releases. The releases are those of its report, not of runs.
"""

from __future__ import annotations

from harness.case import Case
from harness.check.outcome import Signature
from harness.issues.kernel_issue import KernelIssue


def _shows(signature: Signature, case: Case) -> bool:
    raised = (signature.operation, signature.oracle, signature.violation)
    return raised == ("preprocess", "exception", "AssertionError") and case.layout.conv_layout == "DS"


ISSUE = KernelIssue(
    name="ds-bias-refused",
    summary="the V1 precopy asserts that no window in DS layout shifts, which accepted drafts make it do",
    report="https://github.com/vllm-project/vllm/pull/49291",
    since="0.24.0",
    until="0.27.0",
    shows=_shows,
)

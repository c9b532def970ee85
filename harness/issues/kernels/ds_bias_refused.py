"""ds-bias-refused: the scalar copies of the V1 runner raise where a window in DS layout has to shift.

Up to 0.26 they are the only way in which the V1 runner moves a state before a step. A request that ends in the middle
of a block with accepted drafts, and whose next step ends in another one, needs such a shift. 0.22 and 0.23 raise
NotImplementedError, 0.24 to 0.26 assert.
"""

from __future__ import annotations

from harness.case import Case
from harness.check.outcome import Signature
from harness.issues.kernel_issue import KernelIssue, is_dim_first, raises


def _shows(signature: Signature, case: Case) -> bool:
    raised = raises(signature, "AssertionError", "NotImplementedError")
    return raised and signature.operation == "preprocess" and is_dim_first(signature, case)


ISSUE = KernelIssue(
    name="ds-bias-refused",
    summary="the V1 precopy refuses to shift a window in DS layout, which accepted drafts make it do",
    report="https://github.com/vllm-project/vllm/pull/49291",
    since="0.22.0",
    until="0.27.0",
    shows=_shows,
)

"""ds-drafts-refused: the V2 runner asserts, in its first step, that conv windows in DS layout come without drafts.

The fused kernels of these releases move such windows rightly. The assertion is the only thing that keeps a user from
them, and `python -O` leaves it out.
"""

from __future__ import annotations

from harness.case import Case
from harness.check.outcome import Signature
from harness.issues.kernel_issue import KernelIssue, is_dim_first, raises

_OPERATIONS = ("postprocess", "precopy", "advance")


def _shows(signature: Signature, case: Case) -> bool:
    raised = raises(signature, "AssertionError") and signature.operation in _OPERATIONS
    return raised and is_dim_first(signature, case) and case.layout.num_spec > 0


ISSUE = KernelIssue(
    name="ds-drafts-refused",
    summary="the V2 runner asserts that conv windows in DS layout come without drafts, which its kernels can move",
    report="https://github.com/vllm-project/vllm/pull/50363",
    since="0.25.0",
    until="0.27.0",
    shows=_shows,
)

"""address-past-2-63: an address with its highest bit set does not fit the signed numbers that the context keeps."""

from __future__ import annotations

from harness.case import Case
from harness.check.outcome import Signature
from harness.issues.kernel_issue import KernelIssue


def _shows(signature: Signature, case: Case) -> bool:
    return (signature.oracle, signature.violation) == ("exception", "ValueError") and case.execution.high_addresses


ISSUE = KernelIssue(
    name="address-past-2-63",
    summary="addresses with their highest bit set do not fit the context of the fused kernels (F2)",
    report="https://github.com/vllm-project/vllm/pull/48109",
    since="0.22.0",
    until="0.29.0",
    shows=_shows,
)

"""ds-window-as-sd: the fused postprocess takes the dimensions of a conv window in DS layout for those of one in SD.

These releases refuse DS layouts only in their scalar path. The harness treats that as a refusal for all paths, and
skips such cases. The releases are those of its report, not of runs.
"""

from __future__ import annotations

from harness.case import Case, Postprocess
from harness.check.outcome import Signature
from harness.issues.kernel_issue import KernelIssue


def _shows(signature: Signature, case: Case) -> bool:
    wrong = (signature.operation, signature.oracle, signature.conv_layout) == ("postprocess", "memory", "DS")
    return wrong and all(one.runner == "V1" for one in case.program if isinstance(one, Postprocess))


ISSUE = KernelIssue(
    name="ds-window-as-sd",
    summary="the fused postprocess moves a conv window in DS layout as if it were in SD layout",
    report="https://github.com/vllm-project/vllm/pull/45473",
    since="0.22.0",
    until="0.24.0",
    shows=_shows,
)

"""ds-window-as-sd: the fused postprocess takes the dimensions of a conv window in DS layout for those of one in SD.

It copies one run of bytes in place of a run for each row, from an offset that is wrong as well, so that it moves wrong
bytes, reads and writes past the window, and races with itself. The refusal of `get_conv_copy_spec` does not prevent it:
the fused kernel never calls that function.
"""

from __future__ import annotations

from harness.case import Case, Postprocess
from harness.check.outcome import Signature
from harness.issues.kernel_issue import KernelIssue, is_dim_first

_OPERATIONS = ("postprocess", "postprocess-entry")


def _shows(signature: Signature, case: Case) -> bool:
    seen = signature.oracle in ("memory", "access", "race") or signature.relation == "conv-layouts"
    v1 = all(one.runner == "V1" for one in case.program if isinstance(one, Postprocess))
    # A temporal state behind a window is written by mistake; that it arrives wrong has another cause.
    late = (signature.violation, signature.object) == ("wrong-bytes", "temporal")
    return signature.operation in _OPERATIONS and seen and v1 and not late and is_dim_first(signature, case)


ISSUE = KernelIssue(
    name="ds-window-as-sd",
    summary="the fused postprocess moves a conv window in DS layout as if it were in SD layout",
    report="https://github.com/vllm-project/vllm/pull/45682",
    since="0.22.0",
    until="0.24.0",
    shows=_shows,
    families=("layout of a window",),
)

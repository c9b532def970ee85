"""uncopied-states-refused: the runners assert that a layer copies all of its cache tensors, and so do not start with
ReplaySSM, whose layers have tensors that are not copied.
"""

from __future__ import annotations

from harness.case import Case
from harness.check.outcome import Signature
from harness.issues.kernel_issue import KernelIssue, raises


def _shows(signature: Signature, case: Case) -> bool:
    extra = any(layer.extra for group in case.layout.groups for layer in group.layers)
    return extra and raises(signature, "AssertionError")


ISSUE = KernelIssue(
    name="uncopied-states-refused",
    summary="the engine does not start where a layer has cache tensors that are not copied",
    report="https://github.com/vllm-project/vllm/pull/54634",
    since="0.29.0",
    until="0.30.0",
    shows=_shows,
)

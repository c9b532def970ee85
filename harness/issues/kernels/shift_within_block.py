"""shift-within-block: a conv window in SD layout that moves inside its block is not moved as by memmove."""

from __future__ import annotations

from harness.issues.kernel_issue import KernelIssue

ISSUE = KernelIssue(
    name="shift-within-block",
    summary="a conv window in SD layout that moves inside its block is overwritten before it is read (F3)",
    report="https://github.com/vllm-project/vllm/pull/50729",
    since="0.22.0",
    until="0.29.0",
    shows=lambda signature, case: (signature.violation, signature.conv_layout) == ("between-warps", "SD"),
    families=("order of an overlap",),
)

"""shift-within-block-ds: shift-within-block for a window in DS layout, row by row of its dimensions."""

from __future__ import annotations

from harness.issues.kernel_issue import KernelIssue

ISSUE = KernelIssue(
    name="shift-within-block-ds",
    summary="a row of a conv window in DS layout that moves inside its block is overwritten before it is read",
    report="https://github.com/vllm-project/vllm/pull/50729",
    since="0.24.0",
    until="0.29.0",
    of="shift-within-block",
    shows=lambda signature, case: (signature.violation, signature.conv_layout) == ("between-warps", "DS"),
    families=("order of an overlap",),
)

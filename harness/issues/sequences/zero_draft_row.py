"""zero-draft-row: a decode without drafts runs as a plain row, and reads its state from the wrong column."""

from __future__ import annotations

import dataclasses

from harness.issues.change import Change
from harness.issues.sequence_issue import SequenceIssue, speculates

ISSUE = SequenceIssue(
    name="zero-draft-row",
    summary="a decode without drafts runs as a plain row, from the wrong column (up to 0.31)",
    report="https://github.com/vllm-project/vllm/pull/56531",
    since="0.25.0",
    until="0.32.0",
    reaches=speculates,
    fix="a decode without drafts runs as a speculative row with none, as since 0.32",
    change=Change(rules=lambda rules: dataclasses.replace(rules, zero_drafts=True)),
    old_name="zero-draft-rows",
)

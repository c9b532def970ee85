"""padded-fresh-row: a one-token prompt is padded with placeholder drafts although nothing of it is computed."""

from __future__ import annotations

import dataclasses

from harness.issues.change import Change
from harness.issues.sequence_issue import SequenceIssue, speculates

ISSUE = SequenceIssue(
    name="padded-fresh-row",
    summary="a one-token prompt of which nothing is computed is padded with drafts and runs from or into a wrong state",
    report="https://github.com/vllm-project/vllm/pull/55178",
    since="0.25.0",
    until=None,
    reaches=speculates,
    fix="rows with placeholder drafts of requests of which nothing is computed decode from an empty state",
    change=Change(rules=lambda rules: dataclasses.replace(rules, fresh_rows_start_empty=True)),
    old_name="fresh-rows",
)

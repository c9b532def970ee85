"""async-accepted-counts: the copy of accepted counts to the host ends late, and lands in rows of a batch that has moved
on."""

from __future__ import annotations

import dataclasses

from harness.issues.change import Change
from harness.issues.sequence_issue import SequenceIssue, speculates_on_v1

ISSUE = SequenceIssue(
    name="async-accepted-counts",
    summary="accepted counts of an asynchronous V1 engine are copied into rows of a batch that has moved on",
    report="https://github.com/vllm-project/vllm/issues/51571",
    since="0.25.0",
    until=None,
    reaches=lambda config: speculates_on_v1(config) and config.asynchronous,
    fix="an asynchronous V1 engine looks accepted counts up by request, not by row",
    change=Change(rules=lambda rules: dataclasses.replace(rules, counts_by_request=True)),
    old_name="settled-counts",
)

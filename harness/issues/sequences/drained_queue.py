"""drained-queue: after a pause all outputs are delivered, and an asynchronous V1 engine corrects exact counts."""

from __future__ import annotations

import dataclasses

from harness.issues.change import Change
from harness.issues.sequence_issue import SequenceIssue, speculates_on_v1

ISSUE = SequenceIssue(
    name="drained-queue",
    summary="after a pause an asynchronous V1 engine corrects counts that are exact already",
    report="docs/reports/drained-queue.md",
    since="0.25.0",
    until=None,
    reaches=lambda config: speculates_on_v1(config) and config.asynchronous,
    fix="a V1 worker takes the scheduler's counts as they are once all outputs were delivered",
    change=Change(rules=lambda rules: dataclasses.replace(rules, trusts_delivered_counts=True)),
)

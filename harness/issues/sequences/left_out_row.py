"""left-out-row: the V1 batch forgets the accepted count of a row that a step leaves out."""

from __future__ import annotations

import dataclasses

from harness.issues.change import Change
from harness.issues.sequence_issue import SequenceIssue, speculates_on_v1

ISSUE = SequenceIssue(
    name="left-out-row",
    summary="a V1 decode that is left out of a step loses its accepted count",
    report="docs/reports/left-out-row.md",
    since="0.25.0",
    until=None,
    reaches=speculates_on_v1,
    fix="a V1 row that was left out of a step finds its accepted count again",
    change=Change(rules=lambda rules: dataclasses.replace(rules, keeps_accepted=True)),
    old_name="keep-accepted",
)

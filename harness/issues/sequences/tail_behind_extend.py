"""tail-behind-extend: a padded last token (padded-prompt-tail) runs as a prefill if a short chunk is before it in the
batch."""

from __future__ import annotations

import dataclasses

from harness.issues.change import Change
from harness.issues.sequence_issue import SequenceIssue, speculates_on_v1

ISSUE = SequenceIssue(
    name="tail-behind-extend",
    summary="layers of Mamba2 run a prompt's last token, padded with drafts, as a prefill"
    " behind a short chunk of another",
    report="docs/reports/tail-behind-extend.md",
    since="0.30.0",
    until=None,
    reaches=speculates_on_v1,
    fix="a row that is the last token of a prompt and its padding runs as a decode wherever it stands in a V1 batch",
    change=Change(rules=lambda rules: dataclasses.replace(rules, cuts_off_tails=False)),
    old_name="tails-before-extends",
)

"""padded-prompt-tail: layers of Mamba2 take a prompt's last token, padded with drafts, for a prefill."""

from __future__ import annotations

import dataclasses

from harness.issues.change import Change
from harness.issues.sequence_issue import SequenceIssue, speculates

ISSUE = SequenceIssue(
    name="padded-prompt-tail",
    summary="layers of Mamba2 run a prompt's last token, padded with drafts, as a prefill (up to 0.29)",
    report="docs/findings.md",
    since="0.26.0",
    until="0.30.0",
    reaches=speculates,
    fix="a row that is the last token of a prompt and its padding runs as a decode, as since 0.30",
    change=Change(rules=lambda rules: dataclasses.replace(rules, padded_tails=True)),
    old_name="padded-prompt-tails",
)

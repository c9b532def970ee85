"""recomputed-as-decode: a resumed request computes its last outputs again; layers of Mamba2 take them for drafts."""

from __future__ import annotations

import dataclasses

from harness.issues.change import Change
from harness.issues.sequence_issue import SequenceIssue, speculates_on_v1

ISSUE = SequenceIssue(
    name="recomputed-as-decode",
    summary="layers of Mamba2 run the last few outputs that a resumed request computes again as a decode of drafts",
    report="docs/reports/recomputed-as-decode.md",
    since="0.25.0",
    until=None,
    reaches=speculates_on_v1,
    fix="a V1 row that computes outputs again runs as a prefill, however few they are",
    change=Change(rules=lambda rules: dataclasses.replace(rules, recomputed_as_decodes=False)),
    old_name="recomputed-as-prefills",
)

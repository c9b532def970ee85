"""checkpoint-into-running-block: layers export a checkpoint to a column that the block manager gave up."""

from __future__ import annotations

import dataclasses

from harness.issues.change import Change
from harness.issues.sequence_issue import SequenceIssue, has_checkpoints

ISSUE = SequenceIssue(
    name="checkpoint-into-running-block",
    summary="a prefill chunk exports a checkpoint to a column that the block manager gave up,"
    " such as the running block",
    report="docs/reports/checkpoint-into-running-block.md",
    since="0.31.0",
    until=None,
    reaches=has_checkpoints,
    fix="layers export a checkpoint only from the chunk for which the block manager keeps a block",
    change=Change(rules=lambda rules: dataclasses.replace(rules, checkpoints_need_blocks=True)),
    old_name="export-with-block",
)

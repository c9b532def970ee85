"""column-of-smallest-blocks: V2 seeds a state column in the smallest block size, where a drafter has smaller blocks."""

from __future__ import annotations

import dataclasses

from harness.issues.change import Change
from harness.issues.sequence_issue import SequenceIssue, has_other_drafter_blocks
from harness.kernels.targets.vllm.scheduling.rules import ColumnUnit

ISSUE = SequenceIssue(
    name="column-of-smallest-blocks",
    summary="the V2 runner seeds a state column in the smallest block size of all groups (up to 0.31)",
    report="https://github.com/vllm-project/vllm/issues/55600",
    since="0.28.0",
    until="0.32.0",
    reaches=lambda config: config.runner == "V2" and has_other_drafter_blocks(config),
    fix="a V2 state column is seeded in Mamba blocks, whatever the smallest block size is, as since 0.32",
    change=Change(rules=lambda rules: dataclasses.replace(rules, column_unit=ColumnUnit.MAMBA)),
    old_name="mamba-columns",
)

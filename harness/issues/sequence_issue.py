"""A known issue of step sequences has a fix: a change that removes it, and does nothing else.

Default runs switch on all fixes and so avoid known issues. A violation is classified by the fix that makes it go away.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from harness.case.sequence import SequenceCase, SequenceConfig
from harness.issues.change import Change
from harness.issues.known_issue import KnownIssue
from harness.kernels.targets.vllm.scheduling.needed import Name


@dataclasses.dataclass(frozen=True, kw_only=True)
class SequenceIssue(KnownIssue):
    """`fix` says what the change does, `reaches` whether a configuration can run into the issue at all, `events`
    whether the events of a case can, where that takes rare ones. `old_name` is an earlier name of the fix: files,
    `--fixes` and journals accept it as well. `patches` are the functions that the change wraps or rewrites, and cannot
    do without."""

    fix: str
    change: Change
    reaches: Callable[[SequenceConfig], bool]
    events: Callable[[SequenceCase], bool] = lambda case: True
    old_name: str | None = None
    patches: tuple[Name, ...] = ()

    def reached_by(self, case: SequenceCase) -> bool:
        """Whether a case can run into the issue."""
        return self.reaches(case.config) and self.events(case)


SPLIT = Name("vllm.v1.core.sched.scheduler", "Scheduler._mamba_block_aligned_split")


def speculates(config: SequenceConfig) -> bool:
    return config.num_spec > 0


def speculates_on_v1(config: SequenceConfig) -> bool:
    return speculates(config) and config.runner == "V1"


def speculates_asynchronously(config: SequenceConfig) -> bool:
    return speculates(config) and config.asynchronous


def has_checkpoints(config: SequenceConfig) -> bool:
    """Whether layers export states from inside a prefill."""
    return config.checkpoint_alignment is not None


def has_partial_hits(config: SequenceConfig) -> bool:
    return config.match_unit is not None


def has_other_drafter_blocks(config: SequenceConfig) -> bool:
    """Whether the drafter's attention group has blocks of another size."""
    return config.drafter_block_size not in (None, config.block_size)

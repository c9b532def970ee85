"""The registry of known issues: a line for each file.

Issues of step sequences are tried in this order as the cause of a violation, and their fixes are applied in this order:
each wraps a function as the fixes before it left it.
"""

from __future__ import annotations

from collections.abc import Iterable

from harness.case import Case
from harness.case.sequence import SequenceCase
from harness.check.outcome import Signature
from harness.issues.kernel_issue import KernelIssue
from harness.issues.kernels import (
    accepted_count_race,
    address_past_2_63,
    ds_bias_refused,
    ds_drafts_refused,
    ds_window_as_sd,
    shift_within_block,
    shift_within_block_ds,
    uncopied_states_refused,
)
from harness.issues.known_issue import KnownIssue
from harness.issues.sequence_issue import SequenceIssue
from harness.issues.sequences import (
    async_accepted_counts,
    checkpoint_into_running_block,
    checkpoint_mid_block,
    column_of_smallest_blocks,
    copy_of_fresh_block,
    cut_padding,
    drained_queue,
    left_out_row,
    padded_fresh_row,
    padded_prompt_tail,
    padded_to_limit,
    partial_entry_async,
    preempted_while_scheduled,
    recomputed_as_decode,
    reset_with_session,
    split_block_size,
    streamed_session,
    tail_behind_extend,
    tokens_lost_async,
    unaligned_eagle_chunk,
    uncounted_draft_slots,
    unrelocated_block,
    untruncated_hit,
    zero_draft_row,
)

SEQUENCE_ISSUES: tuple[SequenceIssue, ...] = (
    split_block_size.ISSUE,
    async_accepted_counts.ISSUE,
    padded_fresh_row.ISSUE,
    left_out_row.ISSUE,
    checkpoint_mid_block.ISSUE,
    checkpoint_into_running_block.ISSUE,
    preempted_while_scheduled.ISSUE,
    zero_draft_row.ISSUE,
    padded_prompt_tail.ISSUE,
    tail_behind_extend.ISSUE,
    recomputed_as_decode.ISSUE,
    column_of_smallest_blocks.ISSUE,
    copy_of_fresh_block.ISSUE,
    partial_entry_async.ISSUE,
    unrelocated_block.ISSUE,
    unaligned_eagle_chunk.ISSUE,
    untruncated_hit.ISSUE,
    cut_padding.ISSUE,
    padded_to_limit.ISSUE,
    tokens_lost_async.ISSUE,
    drained_queue.ISSUE,
    uncounted_draft_slots.ISSUE,
    streamed_session.ISSUE,
    reset_with_session.ISSUE,
)

KERNEL_ISSUES: tuple[KernelIssue, ...] = (
    accepted_count_race.ISSUE,
    address_past_2_63.ISSUE,
    shift_within_block.ISSUE,
    shift_within_block_ds.ISSUE,
    ds_window_as_sd.ISSUE,
    ds_bias_refused.ISSUE,
    ds_drafts_refused.ISSUE,
    uncopied_states_refused.ISSUE,
)

KNOWN_ISSUES: tuple[KnownIssue, ...] = (*KERNEL_ISSUES, *SEQUENCE_ISSUES)

DEFAULT_FIXES = tuple(issue.name for issue in SEQUENCE_ISSUES)
"""Issues whose fixes are on in default runs."""

TOGETHER = "+"
"""Joins the names of issues that only together explain a violation."""

_BY_NAME = {issue.name: issue for issue in SEQUENCE_ISSUES}
_OLD_NAMES = {issue.old_name: issue.name for issue in SEQUENCE_ISSUES if issue.old_name is not None}


def current_name(name: str) -> str:
    """The name of the issue whose fix has, or had, this name. Any other name is returned unchanged."""
    return _OLD_NAMES.get(name, name)


def issues_of(names: str | None) -> list[SequenceIssue]:
    """The issues whose names are joined in `names`; unknown names are left out."""
    return [_BY_NAME[name] for name in (names or "").split(TOGETHER) if name in _BY_NAME]


def lines_about(names: str | None) -> list[str]:
    """A line for each of the issues whose names are joined in `names`: what it is, and where to read about it."""
    return [issue.line for issue in issues_of(names)] or [one.line for one in KERNEL_ISSUES if one.name == names]


def changed_by_a_fix(names: str | None) -> list[str]:
    """The functions that the fixes of these issues wrap or rewrite: where to look. None for issues without a fix."""
    return [f"{at.name} ({at.module.replace('.', '/')}.py)" for issue in issues_of(names) for at in issue.patches]


def applicable(names: Iterable[str], case: SequenceCase) -> tuple[str, ...]:
    """Those of `names` whose issue the case can reach, in the order of the registry.

    A fix replaces or wraps code of the release, and would hide a mistake that was just made there: so it is applied
    nowhere else.
    """
    wanted = set(names)
    return tuple(issue.name for issue in SEQUENCE_ISSUES if issue.name in wanted and issue.reached_by(case))


def kernel_issue(target: str, signature: Signature, case: Case) -> KernelIssue | None:
    """The known issue that a finding of kernels looks like, among those that its release has."""
    return next((one for one in KERNEL_ISSUES if one.is_in(target) and one.shows(signature, case)), None)


def kernel_regression(base: str, signature: Signature, case: Case) -> KernelIssue | None:
    """The issue that a finding of kernels looks like, among those that were fixed up to the release `base`: on a target
    that was made from it, the issue is back."""
    return next((one for one in KERNEL_ISSUES if one.is_fixed_in(base) and one.shows(signature, case)), None)

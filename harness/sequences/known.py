"""A known issue is a violation that somebody can read about already, or that docs/findings.md describes.

One known issue hides the next, and a campaign that stops at the same place every time tests nothing. So each has a fix
switch: default runs take the issue out by it and stay clear of what is known, and a violation is classified by the fix
that makes it go away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from harness.case.sequence import SequenceCase


class KnownIssue(NamedTuple):
    """`fix` is the switch, `report` where to read about it (a public report, or a file of the project), `reaches`
    whether a case can meet the issue at all."""

    name: str
    fix: str
    report: str
    summary: str
    reaches: Callable[[SequenceCase], bool]


def _speculates(case: SequenceCase) -> bool:
    return case.config.num_spec > 0


KNOWN = (
    KnownIssue(
        "split-block-size",
        "split-block-size",
        "https://github.com/vllm-project/vllm/pull/54076",
        "prefill chunks are aligned to the smallest block size of all groups, not to that of the Mamba groups",
        lambda case: case.config.drafter_block_size not in (None, case.config.block_size),
    ),
    KnownIssue(
        "async-accepted-counts",
        "settled-counts",
        "https://github.com/vllm-project/vllm/issues/51571",
        "accepted counts of an asynchronous V1 engine are copied into rows of a batch that has moved on",
        lambda case: _speculates(case) and case.config.runner == "V1" and case.config.asynchronous,
    ),
    KnownIssue(
        "padded-fresh-row",
        "fresh-rows",
        "https://github.com/vllm-project/vllm/pull/55178",
        "a one-token prompt of which nothing is computed is padded with drafts and runs from or into a wrong state",
        _speculates,
    ),
    KnownIssue(
        "left-out-row",
        "keep-accepted",
        "docs/reports/left-out-row.md",
        "a V1 decode that is left out of a step loses its accepted count",
        lambda case: _speculates(case) and case.config.runner == "V1",
    ),
    KnownIssue(
        "checkpoint-mid-block",
        "realign-chunks",
        "docs/reports/checkpoint-mid-block.md",
        "a chunk that starts inside a block and exports a checkpoint passes the block's end; the block is cached",
        lambda case: case.config.checkpoint_alignment is not None,
    ),
    KnownIssue(
        "checkpoint-into-running-block",
        "export-with-block",
        "docs/reports/checkpoint-into-running-block.md",
        "a prefill chunk exports a checkpoint to a column that the block manager gave up, such as the running block",
        lambda case: case.config.checkpoint_alignment is not None,
    ),
    KnownIssue(
        "preempted-while-scheduled",
        "forget-unscheduled",
        "https://github.com/vllm-project/vllm/issues/57580",
        "a request that is scheduled and then preempted in one step leaves blocks cached that nobody computes",
        lambda case: case.config.policy == "priority",
    ),
    KnownIssue(
        "zero-draft-row",
        "zero-draft-rows",
        "https://github.com/vllm-project/vllm/pull/56531",
        "a decode without drafts runs as a plain row, from the wrong column (up to 0.31)",
        _speculates,
    ),
    KnownIssue(
        "padded-prompt-tail",
        "padded-prompt-tails",
        "docs/findings.md",
        "layers of Mamba2 run a prompt's last token, padded with drafts, as a prefill (up to 0.29)",
        _speculates,
    ),
    KnownIssue(
        "tail-behind-extend",
        "tails-before-extends",
        "docs/reports/tail-behind-extend.md",
        "layers of Mamba2 run a prompt's last token, padded with drafts, as a prefill behind a short chunk of another",
        lambda case: _speculates(case) and case.config.runner == "V1",
    ),
    KnownIssue(
        "recomputed-as-decode",
        "recomputed-as-prefills",
        "docs/reports/recomputed-as-decode.md",
        "layers of Mamba2 run the last few outputs that a resumed request computes again as a decode of drafts",
        lambda case: _speculates(case) and case.config.runner == "V1",
    ),
    KnownIssue(
        "column-of-smallest-blocks",
        "mamba-columns",
        "https://github.com/vllm-project/vllm/issues/55600",
        "the V2 runner seeds a state column in the smallest block size of all groups (up to 0.31)",
        lambda case: (
            case.config.runner == "V2" and case.config.drafter_block_size not in (None, case.config.block_size)
        ),
    ),
    KnownIssue(
        "copy-of-fresh-block",
        "defer-fresh-sources",
        "docs/reports/copy-of-fresh-block.md",
        "a partial hit is copied from an attention block that another request fills in the same step",
        lambda case: case.config.match_unit is not None,
    ),
    KnownIssue(
        "partial-entry-async",
        "tails-of-prompts",
        "docs/findings.md",
        "an asynchronous scheduler registers a running block for a prompt that it is past (up to 0.31)",
        lambda case: case.config.match_unit is not None and case.config.asynchronous,
    ),
    KnownIssue(
        "unrelocated-block",
        "relocate-at-checkpoints",
        "docs/findings.md",
        "a step with a checkpoint inside leaves a speculative block where it is registered as a state (0.31)",
        lambda case: _speculates(case) and case.config.checkpoint_alignment is not None,
    ),
    KnownIssue(
        "unaligned-eagle-chunk",
        "aligned-eagle-chunks",
        "https://github.com/vllm-project/vllm/issues/43559",
        "with a drafter that drops a block, chunks of a prompt's last two blocks are not aligned (up to 0.26)",
        _speculates,
    ),
    KnownIssue(
        "untruncated-hit",
        "truncated-hits",
        "https://github.com/vllm-project/vllm/pull/52828",
        "a drafter's attention group keeps blocks past the end of a prefix hit, and writes into them (0.28)",
        lambda case: case.config.drafter_block_size is not None,
    ),
    KnownIssue(
        "cut-padding",
        "whole-padding",
        "docs/findings.md",
        "a one-token prompt is padded with more drafts than are then scheduled (up to 0.28)",
        _speculates,
    ),
    KnownIssue(
        "padded-to-limit",
        "padding-below-limit",
        "https://github.com/vllm-project/vllm/pull/53962",
        "a one-token prompt is padded up to the model's length, and then gets a negative number of tokens (up to 0.28)",
        lambda case: _speculates(case) and case.config.asynchronous,
    ),
    KnownIssue(
        "tokens-lost-async",
        "discard-frames",
        "https://github.com/vllm-project/vllm/pull/49620",
        "after a forced reset an asynchronous scheduler discards tokens that are not stale (up to 0.26)",
        lambda case: _speculates(case) and case.config.asynchronous,
    ),
    KnownIssue(
        "drained-queue",
        "drained-queue",
        "docs/reports/drained-queue.md",
        "after a pause an asynchronous V1 engine corrects counts that are exact already",
        lambda case: _speculates(case) and case.config.runner == "V1" and case.config.asynchronous,
    ),
)

DEFAULT_FIXES = tuple(issue.fix for issue in KNOWN)
"""What default runs switch on."""


TOGETHER = "+"
"""Joins the names of issues that only together explain a violation."""


def fixes_of(names: str | None) -> tuple[str, ...]:
    """Fixes of the issues whose names are joined in `names`."""
    wanted = (names or "").split(TOGETHER)
    return tuple(issue.fix for issue in KNOWN if issue.name in wanted)


def described(names: str | None) -> list[str]:
    """A line for each of the issues whose names are joined in `names`: what it is, and where to read about it."""
    wanted = (names or "").split(TOGETHER)
    return [f"{issue.name}: {issue.summary} ({issue.report})" for issue in KNOWN if issue.name in wanted]


def acting(fixes: tuple[str, ...], case: SequenceCase) -> tuple[str, ...]:
    """Those of `fixes` whose issue the case can reach.

    A fix replaces or wraps code of the release, and would hide a mistake that somebody just made there: so it acts
    nowhere else.
    """
    reached = {issue.fix for issue in KNOWN if issue.reaches(case)}
    return tuple(fix for fix in fixes if fix in reached)

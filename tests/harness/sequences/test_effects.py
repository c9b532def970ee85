"""Fixes that change nothing in a release are distinguished from those that do."""

from __future__ import annotations

from harness.issues.registry import DEFAULT_FIXES
from harness.sequences.worker import SequenceWorker


def test_rules_that_the_newest_release_has_already_are_not_a_change(scheduler: SequenceWorker) -> None:
    idle = scheduler.without_effect(DEFAULT_FIXES)
    assert idle == [name for name in DEFAULT_FIXES if name in idle]
    of_older = {"zero-draft-row", "unrelocated-block", "cut-padding", "padded-to-limit", "tokens-lost-async"}
    assert of_older <= set(idle)
    has_effect = {"padded-fresh-row", "split-block-size", "checkpoint-mid-block", "async-accepted-counts"}
    has_effect |= {"copy-of-fresh-block", "checkpoint-into-running-block", "left-out-row", "drained-queue"}
    has_effect |= {"preempted-while-scheduled", "uncounted-draft-slots"}
    assert not has_effect & set(idle)

"""Fixes that change nothing in a release are told from those that do."""

from __future__ import annotations

from harness.sequences.controls import FIXES
from harness.sequences.worker import SequenceWorker


def test_rules_that_the_newest_release_has_already_are_no_change(scheduler: SequenceWorker) -> None:
    told = scheduler.without_effect(tuple(FIXES))
    assert told == [name for name in FIXES if name in told]
    of_older = {"zero-draft-rows", "relocate-at-checkpoints", "whole-padding", "padding-below-limit", "discard-frames"}
    assert of_older <= set(told)
    has_effect = {"fresh-rows", "split-block-size", "realign-chunks", "settled-counts", "forget-unscheduled"}
    has_effect |= {"defer-fresh-sources", "export-with-block", "keep-accepted", "drained-queue"}
    assert not has_effect & set(told)

"""cut-padding: a one-token prompt is padded with drafts, and then scheduled with fewer tokens than those."""

from __future__ import annotations

from typing import Any

from harness.issues.change import Change
from harness.issues.engine_changes import pads_as_before_0_29, rewrite_schedule
from harness.issues.sequence_issue import SequenceIssue, speculates


def _unpadded(last_argument: str, indent: int) -> tuple[str, str]:
    """The end of the call that cuts a new request's tokens, as a release has it, and the same followed by 0.29's
    rule."""
    space = " " * indent
    cut = f"{last_argument},\n{space})\n{space}if num_new_tokens == 0:\n{space}    break\n"
    rule = f"{space}if pad_spec_decode and num_new_tokens != 1 + self.num_spec_tokens:\n"
    return cut, f"{cut}{rule}{space}    num_new_tokens, pad_spec_decode = 1, False\n"


_CUTS = (
    _unpadded("    num_external_computed_tokens", 20),
    _unpadded("    num_external_computed_tokens", 16),
    _unpadded("    num_uncached_common_prefix_tokens", 16),
)


def _pad_whole(engine: Any) -> None:
    """Since 0.29 a row whose padding would be cut is not padded."""
    if pads_as_before_0_29(engine):
        any(rewrite_schedule(engine, cut) for cut in _CUTS)


ISSUE = SequenceIssue(
    name="cut-padding",
    summary="a one-token prompt is padded with more drafts than are then scheduled (up to 0.28)",
    report="docs/findings.md",
    since="0.27.0",
    until="0.29.0",
    reaches=speculates,
    fix="a one-token prompt whose padding would be cut is not padded, as since 0.29",
    change=Change(engine=_pad_whole),
    old_name="whole-padding",
)

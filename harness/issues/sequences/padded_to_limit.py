"""padded-to-limit: a one-token prompt is padded up to the model's length, and then gets a negative number of tokens."""

from __future__ import annotations

from typing import Any

from harness.issues.change import Change
from harness.issues.engine_changes import pads_as_before_0_29, rewrite_schedule
from harness.issues.sequence_issue import SequenceIssue, speculates_asynchronously

_PADS = "and (scheduled_running_reqs and not prefill_scheduled)\n"
_PAST_LIMIT = (
    _PADS,
    f"{_PADS} and num_computed_tokens + 1 + self.num_spec_tokens "
    "+ getattr(self, 'num_sampled_tokens_per_step', 1) <= self.max_model_len\n",
)
"""The last condition for padding, and the same followed by 0.29's condition."""


def _pad_below_limit(engine: Any) -> None:
    """Since 0.29 a row is padded only if the padding and the token sampled after it fit the model's length."""
    if pads_as_before_0_29(engine):
        rewrite_schedule(engine, _PAST_LIMIT)


ISSUE = SequenceIssue(
    name="padded-to-limit",
    summary="a one-token prompt is padded up to the model's length, and then gets a negative number of tokens"
    " (up to 0.28)",
    report="https://github.com/vllm-project/vllm/pull/53962",
    since="0.26.0",
    until="0.29.0",
    reaches=speculates_asynchronously,
    fix="a one-token prompt is padded only where the next token still fits, as since 0.29",
    change=Change(engine=_pad_below_limit),
    old_name="padding-below-limit",
)

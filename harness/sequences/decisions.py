"""The decisions of a step are what the output of a release's scheduler says about requests.

Runners get that output. It is read here only for the history of a violation, and only when one is reported.
"""

from __future__ import annotations

from typing import Any

from harness.oracles.states.history import Decisions


def decisions_of(output: Any) -> Decisions:
    """What an output of the scheduler says."""
    cached = output.scheduled_cached_reqs
    resumed = getattr(cached, "resumed_req_ids", None) or ()
    computed = dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
    return Decisions(
        finished=output.finished_req_ids,
        preempted=getattr(output, "preempted_req_ids", None) or (),
        started={new.req_id: new.num_computed_tokens for new in output.scheduled_new_reqs},
        resumed={name: computed[name] for name in cached.req_ids if name in resumed},
        scheduled=output.num_scheduled_tokens,
        drafts={name: len(tokens) for name, tokens in output.scheduled_spec_decode_tokens.items()},
    )

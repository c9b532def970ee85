"""Accepted counts are how many tokens of each request the device kept in a step, by the name of the request.

A runner keeps them by row. Here they are noted when the device has them: before a copy to the host lands, and before
rows move.
"""

from __future__ import annotations

from typing import Any

from harness.end_to_end.inside.late_counts import LandingEvent


class AcceptedCounts:
    """Those of one runner, from now on. `keeps_left_out`: a request that was not in the last step has the count of the
    last step that it was in; otherwise it has 1, as a release's runner says."""

    def __init__(self, runner: Any) -> None:
        self.keeps_left_out = False
        self._last: dict[str, int] = {}
        self._earlier: dict[str, int] = {}
        self._runner = runner
        self._note_what_is_kept()
        self._forget_what_has_gone()

    def of(self, name: str) -> int:
        """The count with which a request continues."""
        return self._last.get(name, self.left_out(name) if self.keeps_left_out else 1)

    def left_out(self, name: str) -> int:
        """The count that a request was left with, however long ago; 1 if it starts anew."""
        return self._earlier.get(name, 1)

    def _note_what_is_kept(self) -> None:
        runner = self._runner
        update = runner._update_states_after_model_execute

        def updated(output_token_ids: Any, *arguments: Any, **named: Any) -> None:
            update(output_token_ids, *arguments, **named)
            batch, event = runner.input_batch, runner.num_accepted_tokens_event
            counts = event.counts if isinstance(event, LandingEvent) else batch.num_accepted_tokens_cpu
            rows = range(output_token_ids.shape[0])
            self._last = {batch.req_ids[row]: int(counts[row]) for row in rows}
            self._earlier.update(self._last)

        runner._update_states_after_model_execute = updated

    def _forget_what_has_gone(self) -> None:
        """Requests that finish, and those that were preempted and start from another state."""
        runner = self._runner
        update = runner._update_states

        def updated(output: Any, *arguments: Any, **named: Any) -> Any:
            result = update(output, *arguments, **named)
            for name in (*output.finished_req_ids, *output.scheduled_cached_reqs.resumed_req_ids):
                self._last.pop(name, None)
                self._earlier.pop(name, None)
            return result

        runner._update_states = updated

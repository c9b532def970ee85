"""Late counts are accepted counts that reach the host only when it waits for them, as from a device.

On a CPU the runner's copy of accepted counts to the host is done at once. On a GPU an asynchronous runner prepares its
next step while the copy is in flight, and whatever it does with the host's array meanwhile is overwritten when the copy
lands. Here it lands when the runner waits for its event, or when the step's output is delivered, which a device copies
behind it; at once, where the sequence says that the device is early.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Update = Callable[..., None]
SampleTokens = Callable[..., Any]


class LandingEvent:
    """Takes the place of the event that is recorded behind the copy."""

    def __init__(self, host: torch.Tensor, counts: torch.Tensor) -> None:
        self._host, self.counts = host, counts
        self._landed = False

    def record(self) -> None:
        """The copy is behind it already."""

    def synchronize(self) -> None:
        """Wait for the copy: it lands now, once."""
        if not self._landed:
            self._host[: self.counts.shape[0]].copy_(self.counts)
            self._landed = True


def with_late_counts(update: Update) -> Update:
    """`GPUModelRunner._update_states_after_model_execute`, whose counts are still in flight when it returns."""

    def update_and_hold_back(self: Any, output_token_ids: torch.Tensor, *args: Any, **kwargs: Any) -> None:
        engine = getattr(self, "scripted_engine", None)
        if engine is None or not engine.options.asynchronous or not engine.options.num_spec:
            update(self, output_token_ids, *args, **kwargs)
            return
        host = self.input_batch.num_accepted_tokens_cpu_tensor
        before = host.clone()
        update(self, output_token_ids, *args, **kwargs)
        counts = host[: output_token_ids.shape[0]].clone()
        host.copy_(before)
        self.num_accepted_tokens_event = LandingEvent(host, counts)

    return update_and_hold_back


def with_landing(sample_tokens: SampleTokens) -> SampleTokens:
    """`GPUModelRunner.sample_tokens`, whose counts have landed once its output has."""

    def sample_and_land(self: Any, *args: Any, **kwargs: Any) -> Any:
        output = sample_tokens(self, *args, **kwargs)
        event = getattr(self, "num_accepted_tokens_event", None)
        if isinstance(event, LandingEvent) and hasattr(output, "get_output"):
            deliver = output.get_output

            def land_and_deliver() -> Any:
                event.synchronize()
                return deliver()

            output.get_output = land_and_deliver
        return output

    return sample_and_land

"""A chosen stop is the sampler's result with the last token of some rows exchanged for the one that ends a request.

A sequence says when the model ends a request; a real model cannot be made to say so. Rows that do not sample in a step,
since their prompt continues, wait for the step in which they do.

The device of an asynchronous engine has a step in flight by then. What it says there is thrown away, but it decides how
many drafts a row keeps: so only the host gets the stop token, and the device continues as the plain run does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.end_to_end.inside.tiny_model import STOP

Sample = Callable[..., Any]

RUNNER = "vllm.v1.worker.gpu_model_runner"


def with_chosen_stops(sample: Sample) -> Sample:
    """`GPUModelRunner._sample`, with the stops that the sequence of the runner's engine asks for."""

    def sample_and_stop(self: Any, *args: Any, **kwargs: Any) -> Any:
        output = sample(self, *args, **kwargs)
        engine = getattr(self, "scripted_engine", None)
        if engine is None or not engine.stops:
            return output
        unfinished = self.discard_request_mask.np
        for row, name in enumerate(self.input_batch.req_ids):
            if name in engine.stops and not unfinished[row]:
                tokens = output.sampled_token_ids[row]
                last = int((tokens >= 0).sum()) - 1
                if engine.options.asynchronous:
                    engine.stopping[name] = last
                else:
                    tokens[last] = STOP
                engine.stops.discard(name)
        return output

    return sample_and_stop


def with_delivered_stops(sample_tokens: Sample) -> Sample:
    """`GPUModelRunner.sample_tokens` of asynchronous engines, whose host gets the stops."""

    def sample_and_deliver(self: Any, *args: Any, **kwargs: Any) -> Any:
        output = sample_tokens(self, *args, **kwargs)
        engine = getattr(self, "scripted_engine", None)
        if engine is None or not engine.stopping:
            return output
        stopping, engine.stopping = engine.stopping, {}
        deliver = output.get_output

        def deliver_stops() -> Any:
            delivered = deliver()
            for name, last in stopping.items():
                delivered.sampled_token_ids[delivered.req_id_to_index[name]][last] = STOP
            return delivered

        output.get_output = deliver_stops
        return output

    return sample_and_deliver

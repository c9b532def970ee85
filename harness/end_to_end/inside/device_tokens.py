"""Device tokens are those of each request as the device has them: what has been sampled, known to the host or not.

An asynchronous host learns sampled tokens a step later, and its own copy has placeholders until then. A scripted
drafter that is asked at once needs to know them, to say what follows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Sample = Callable[..., Any]


class DeviceTokens:
    """The tokens of each request, by name."""

    def __init__(self) -> None:
        self._tokens: dict[str, list[int]] = {}

    def of(self, request: str) -> list[int]:
        """All tokens of a request: its prompt, and what follows."""
        return self._tokens.get(request, [])

    def sampled(self, runner: Any, tokens: torch.Tensor, drafts: list[int] | None) -> None:
        """A step of the runner has sampled these tokens, -1 where there is none, behind so many drafts of each row."""
        lengths = runner.seq_lens[: tokens.shape[0]].tolist()
        unfinished = runner.discard_request_mask.np
        for row, name in enumerate(runner.input_batch.req_ids):
            if unfinished[row]:
                continue
            first = lengths[row] - (drafts[row] if drafts else 0)
            known = self._tokens.setdefault(name, list(runner.requests[name].prompt_token_ids))
            if first > len(known):  # tokens that were never sampled here: nothing that follows is known
                known += [-1] * (first - len(known))
            self._tokens[name] = known[:first] + [token for token in tokens[row].tolist() if token >= 0]


def with_device_tokens(sample: Sample) -> Sample:
    """`GPUModelRunner._sample`, noted for the runner's engine."""

    def sample_and_note(self: Any, logits: Any, spec_decode_metadata: Any, *args: Any, **kwargs: Any) -> Any:
        output = sample(self, logits, spec_decode_metadata, *args, **kwargs)
        engine = getattr(self, "scripted_engine", None)
        if engine is not None and (engine.options.num_spec or engine.options.asynchronous):
            drafts = None if spec_decode_metadata is None else list(spec_decode_metadata.num_draft_tokens)
            engine.device_tokens.sampled(self, output.sampled_token_ids, drafts)
        return output

    return sample_and_note

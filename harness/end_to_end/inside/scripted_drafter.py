"""The drafter of a scripted engine proposes what the sequence says: so many drafts, so many of them right.

It stands in the place of vLLM's ngram drafter. A right draft is the plain run's next token; a wrong one is another
token of the vocabulary. Where the engine has said other tokens than the plain run, no right draft is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

PROPOSER = "vllm.v1.spec_decode.ngram_proposer"


class DraftPlan(Protocol):
    """What a sequence says of the drafts after the current step."""

    def __call__(self, request: str) -> tuple[int, int]:
        """How many drafts of a request, and how many of them are right."""


class ScriptedDrafts:
    """`due` are the tokens of each request, by name, as the plain run says them: its prompt and what follows."""

    def __init__(self, due: Mapping[str, Sequence[int]], plan: DraftPlan, other: Callable[[int], int]) -> None:
        self._due, self._plan, self._other = due, plan, other

    def after(self, request: str, tokens: Sequence[int], most: int) -> list[int]:
        """The drafts that follow `tokens` of a request, `most` at the most."""
        count, right = self._plan(request)
        due = self._due[request]
        known = list(due[: len(tokens)]) == list(tokens)
        drafts: list[int] = []
        for place in range(len(tokens), len(tokens) + min(count, most)):
            token = due[place] if place < len(due) else 0
            drafts.append(token if known and len(drafts) < right and place < len(due) else self._other(token))
        return drafts


def propose(self: Any, *args: Any, **kwargs: Any) -> list[list[int]]:
    """Stands in for `NgramProposer.propose`: the releases differ in whether the number of drafts comes first."""
    named = dict(zip(("sampled_token_ids", "num_tokens_no_spec", "token_ids_cpu"), _arrays(args), strict=False))
    named |= {name: value for name, value in kwargs.items() if name in named or name.endswith(("ids", "spec", "cpu"))}
    most = args[0] if args and isinstance(args[0], int) else kwargs.get("num_speculative_tokens", self.k)
    engine = getattr(self, "scripted_engine", None)
    if engine is None or engine.drafts is None:  # a call to warm up, while the engine is made
        return []
    proposed: list[list[int]] = []
    for row, sampled in enumerate(named["sampled_token_ids"]):
        length = int(named["num_tokens_no_spec"][row])
        room = self.max_model_len - length
        if not len(sampled) or room <= 0:
            proposed.append([])
            continue
        tokens = [int(token) for token in named["token_ids_cpu"][row, :length]]
        proposed.append(engine.drafts.after(engine.runner.input_batch.req_ids[row], tokens, min(int(most), room)))
    return proposed


def _arrays(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return args[1:] if args and isinstance(args[0], int) else args

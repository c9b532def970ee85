"""Which tokens a state has to be that of, on stand-ins of an engine's parts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from harness.end_to_end.inside.continued_rows import Read
from harness.end_to_end.inside.device_tokens import DeviceTokens
from harness.end_to_end.inside.state_reads import StateReads, WrongRead

PROMPT = [3, 5, 8]


def reads(asynchronous: bool, on_device: list[int], end: int) -> StateReads:
    """Of an engine whose one row runs two tokens up to `end`, with placeholders on the host behind the prompt."""
    tokens = DeviceTokens()
    tokens._tokens = {"one": on_device} if on_device else {}
    runner = SimpleNamespace(
        input_batch=SimpleNamespace(req_ids=["one"], token_ids_cpu=np.array([[*PROMPT, 0, 0, 0]])),
        query_start_loc=SimpleNamespace(np=np.array([0, 2])),
        seq_lens=np.array([end]),
        requests={"one": SimpleNamespace(prompt_token_ids=PROMPT)},
    )
    made: Any = StateReads.__new__(StateReads)
    made._engine = SimpleNamespace(
        runner=runner, options=SimpleNamespace(asynchronous=asynchronous), device_tokens=tokens
    )
    return made


@pytest.mark.parametrize(
    ("asynchronous", "on_device", "end", "tokens"),
    [
        (False, [], 6, (3, 5, 8, 0)),
        (True, [3, 5, 8, 13, 21], 6, (3, 5, 8, 13)),
        (True, [], 4, (3, 5)),
        (True, [], 2, ()),
    ],
)
def test_tokens_are_those_of_the_device(
    asynchronous: bool, on_device: list[int], end: int, tokens: tuple[int, ...]
) -> None:
    assert reads(asynchronous, on_device, end)._text(0) == tokens


@pytest.mark.parametrize("on_device", [[3, 5, 8], [3, 5, 8, -1]])
def test_tokens_that_were_not_noted_are_not_made_up(on_device: list[int]) -> None:
    with pytest.raises(LookupError, match="request one were not noted"):
        reads(True, on_device, 6)._text(0)


def test_nothing_computed_means_zeros() -> None:
    watched = reads(False, [], 2)
    assert watched._difference(torch.zeros(2, 3), (), "layer", "temporal state") is None
    difference = watched._difference(torch.tensor([[0.0, 1e-9]]), (), "layer", "temporal state")
    assert difference == "is not zeros, though nothing of the request is computed"


@pytest.mark.parametrize(("computed", "text"), [(1, "1 token"), (32, "32 tokens")])
def test_the_line_says_after_how_many_tokens(computed: int, text: str) -> None:
    read = Read(layer="a.layer", group=0, row=0, block=8, window_block=9, offset=0)
    wrong = WrongRead(4, "2", read, 1, "temporal state", computed, "it is zeros")
    assert wrong.line == (
        f"first wrong state: step 4, request 2 continues after {text}: the temporal state of a.layer"
        " (group 0, column 1, block 8) it is zeros"
    )

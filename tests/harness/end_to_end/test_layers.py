"""The layers' arithmetic in plain torch, compared with the recurrence written out token by token."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn import functional

from harness.end_to_end.inside import convolution
from harness.end_to_end.inside import mamba2_layers as layers

HEADS, SIZE, STATES, CHANNELS, WIDTH = 4, 3, 2, 5, 4


class Inputs:
    """Random inputs of `tokens` tokens, and the weights of a layer."""

    def __init__(self, tokens: int, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(shape, generator=generator)

        self.x, self.dt = normal(tokens, HEADS, SIZE), normal(tokens, HEADS)
        self.into, self.outof = normal(tokens, 1, STATES), normal(tokens, 1, STATES)
        self.decay = -torch.rand(HEADS, generator=generator) - 0.1
        self.skip, self.bias = normal(HEADS), normal(HEADS)
        self.start = normal(HEADS, SIZE, STATES)
        self.conv, self.weight, self.conv_bias = normal(CHANNELS, tokens), normal(CHANNELS, WIDTH), normal(CHANNELS)
        self.window = normal(CHANNELS, WIDTH - 1)

    def recurrence(self, start: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Outputs, and the state after each token."""
        held, outputs, states = start.double(), [], []
        for t in range(len(self.x)):
            size = functional.softplus(self.dt[t].double() + self.bias.double())
            held = held * torch.exp(size * self.decay.double())[:, None, None]
            held = held + (size[:, None] * self.x[t].double())[:, :, None] * self.into[t, 0].double()
            outputs.append(
                (held * self.outof[t, 0].double()).sum(-1) + self.skip.double()[:, None] * self.x[t].double()
            )
            states.append(held)
        return torch.stack(outputs).float(), states

    def convolution(self) -> torch.Tensor:
        """Outputs of the convolution behind the window."""
        line = torch.cat([self.window, self.conv], dim=1)
        tokens = self.conv.shape[1]
        sums = [(line[:, t : t + WIDTH] * self.weight).sum(1) + self.conv_bias for t in range(tokens)]
        return functional.silu(torch.stack(sums, dim=1))

    def scan(self, borders: list[int], **more: Any) -> tuple[torch.Tensor, Any]:
        """The layer's scan of one row, cut into chunks."""
        out = torch.zeros_like(self.x)
        tokens = len(self.x)
        result = layers.mamba_chunk_scan_combined_varlen(
            self.x,
            self.dt,
            self.decay,
            self.into,
            self.outof,
            chunk_size=4,
            cu_seqlens=torch.tensor([0, tokens]),
            cu_chunk_seqlens=torch.tensor(borders),
            last_chunk_indices=torch.tensor([len(borders) - 2]),
            seq_idx=torch.zeros(len(borders) - 1),
            out=out,
            D=self.skip,
            dt_bias=self.bias,
            initial_states=self.start[None],
            dt_softplus=True,
            state_dtype=torch.float32,
            **more,
        )
        return out, result

    def update(self, state: torch.Tensor, slots: torch.Tensor, accepted: torch.Tensor | None) -> torch.Tensor:
        """The layer's update of one decode row with all tokens."""
        out = torch.zeros_like(self.x)
        tokens = len(self.x)
        layers.selective_state_update(
            state,
            self.x,
            self.dt[:, :, None].expand(-1, -1, SIZE),
            self.decay[:, None, None].expand(-1, SIZE, STATES),
            self.into,
            self.outof,
            self.skip[:, None].expand(-1, SIZE),
            self.bias[:, None].expand(-1, SIZE),
            dt_softplus=True,
            state_batch_indices=slots,
            dst_state_batch_indices=slots,
            out=out,
            num_accepted_tokens=accepted,
            cu_seqlens=torch.tensor([0, tokens]),
        )
        return out


@pytest.mark.parametrize("borders", [[0, 9], [0, 4, 8, 9], [0, 1, 2, 9]])
def test_a_scan_is_the_recurrence_however_it_is_cut(borders: list[int]) -> None:
    inputs = Inputs(9)
    due, states = inputs.recurrence(inputs.start)
    out, after = inputs.scan(borders, return_intermediate_states=True)
    torch.testing.assert_close(out, due)
    torch.testing.assert_close(after, torch.stack([states[end - 1] for end in borders[1:]]).float())


def test_a_scan_stores_final_states_where_it_is_told() -> None:
    inputs = Inputs(6)
    cache = torch.zeros(3, HEADS, SIZE, STATES)
    _, after = inputs.scan([0, 4, 6], final_states_out=cache, final_state_indices=torch.tensor([2]))
    assert after is None
    torch.testing.assert_close(cache[2], inputs.recurrence(inputs.start)[1][-1].float())
    assert not cache[:2].any()


def test_a_decode_with_drafts_starts_behind_its_accepted_ones_and_keeps_every_state() -> None:
    inputs = Inputs(3)
    cache = torch.randn(6, HEADS, SIZE, STATES)
    cache[2] = inputs.start
    due, states = inputs.recurrence(inputs.start)
    out = inputs.update(cache, torch.tensor([[1, 2, 3]]), torch.tensor([2]))  # two accepted: from the second slot
    torch.testing.assert_close(out, due)
    torch.testing.assert_close(cache[1:4], torch.stack(states).float())


def test_a_plain_decode_keeps_the_last_state() -> None:
    inputs = Inputs(1)
    cache = torch.zeros(3, HEADS, SIZE, STATES)
    cache[1] = inputs.start
    due, states = inputs.recurrence(inputs.start)
    torch.testing.assert_close(inputs.update(cache, torch.tensor([1]), None), due)
    torch.testing.assert_close(cache[1], states[0].float())


def test_rows_of_the_null_block_touch_nothing() -> None:
    inputs = Inputs(2)
    cache = torch.ones(3, HEADS, SIZE, STATES)
    assert not inputs.update(cache, torch.tensor([[0, 0]]), torch.tensor([1])).any()
    assert (cache == 1).all()


def test_a_prefill_convolution_leaves_the_last_inputs_as_window() -> None:
    inputs = Inputs(5)
    cache = torch.zeros(3, CHANNELS, WIDTH + 1)
    cache[1, :, : WIDTH - 1] = inputs.window
    out = convolution.causal_conv1d_fn(
        inputs.conv,
        inputs.weight,
        inputs.conv_bias,
        cache,
        torch.tensor([0, 5]),
        torch.tensor([1]),
        torch.tensor([True]),
    )
    torch.testing.assert_close(out, inputs.convolution())
    torch.testing.assert_close(cache[1, :, : WIDTH - 1], inputs.conv[:, -(WIDTH - 1) :])


def test_a_convolution_with_drafts_continues_behind_its_accepted_ones() -> None:
    inputs = Inputs(3)
    cache = torch.randn(3, CHANNELS, WIDTH + 1)
    cache[1, :, 1:WIDTH] = inputs.window  # one draft accepted: the window is one token further
    out = convolution.causal_conv1d_update(
        inputs.conv.T,
        cache,
        inputs.weight,
        inputs.conv_bias,
        "silu",
        conv_state_indices=torch.tensor([[1, 2, 0]]),
        num_accepted_tokens=torch.tensor([2]),
        query_start_loc=torch.tensor([0, 3]),
    )
    torch.testing.assert_close(out, inputs.convolution().T)
    torch.testing.assert_close(cache[1], torch.cat([inputs.window[:, 1:], inputs.conv], dim=1))


def test_a_checkpoint_is_the_window_and_the_state_in_the_middle() -> None:
    inputs = Inputs(8)
    conv, ssm = torch.zeros(4, CHANNELS, WIDTH + 1), torch.zeros(4, HEADS, SIZE, STATES)
    states = torch.randn(3, HEADS, SIZE, STATES)
    about = SimpleNamespace(checkpoint_offsets=torch.tensor([5, 0]), state_indices=torch.tensor([2, 3]))
    layers.store_prefill_checkpoint(
        about, torch.tensor([1, 2]), inputs.conv, conv, states, ssm, torch.tensor([0, 6, 8]), state_len=WIDTH - 1
    )
    torch.testing.assert_close(conv[2, :, : WIDTH - 1], inputs.conv[:, 2:5])
    torch.testing.assert_close(ssm[2], states[1])
    assert not conv[3].any()
    assert not ssm[3].any()


@pytest.mark.parametrize(
    "call",
    [
        lambda inputs: inputs.scan([0, 2], z=inputs.x),
        lambda inputs: inputs.scan([0, 2], unheard_of=7),
    ],
)
def test_an_unknown_argument_is_refused(call: Callable[[Inputs], object]) -> None:
    with pytest.raises(convolution.UnknownArgument):
        call(Inputs(2))

"""The arithmetic of gated delta nets in plain torch, compared with the recurrence written out token by token."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

from harness.end_to_end.inside import gated_delta_net_layers as layers
from harness.end_to_end.inside.convolution import UnknownArgument

KEY_HEADS, HEADS, SIZE, KEY = 2, 4, 3, 5


class Inputs:
    """Random inputs of `tokens` tokens, as they leave the convolution, and the weights of a layer."""

    def __init__(self, tokens: int, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(shape, generator=generator)

        self.tokens = tokens
        self.mixed = normal(tokens, 2 * KEY_HEADS * KEY + HEADS * SIZE)
        self.a, self.b = normal(tokens, HEADS), normal(tokens, HEADS)
        self.logarithms, self.bias = normal(HEADS), normal(HEADS)
        self.start = normal(HEADS, SIZE, KEY)

    @property
    def parts(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries, keys and values: (1, tokens, heads, size)."""
        q, k, v = self.mixed.split([KEY_HEADS * KEY, KEY_HEADS * KEY, HEADS * SIZE], dim=1)
        shape = (1, self.tokens)
        return q.reshape(*shape, KEY_HEADS, KEY), k.reshape(*shape, KEY_HEADS, KEY), v.reshape(*shape, HEADS, SIZE)

    def recurrence(self, start: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Outputs, and the state after each token: one head after the other."""
        q, k, v = (part[0].double() for part in self.parts)
        outputs, states, held = [], [], start.double().clone()
        for t in range(self.tokens):
            line = []
            for head in range(HEADS):
                query, key = q[t, head // (HEADS // KEY_HEADS)], k[t, head // (HEADS // KEY_HEADS)]
                query = query / torch.sqrt(query @ query + 1e-6) * KEY**-0.5
                key = key / torch.sqrt(key @ key + 1e-6)
                size = functional.softplus(self.a[t, head].double() + self.bias[head].double())
                held[head] = held[head] * torch.exp(-torch.exp(self.logarithms[head].double()) * size)
                missing = v[t, head] - held[head] @ key
                held[head] = held[head] + torch.sigmoid(self.b[t, head].double()) * torch.outer(missing, key)
                line.append(held[head] @ query)
            outputs.append(torch.stack(line))
            states.append(held.clone())
        return torch.stack(outputs).float(), states

    def prefill(self, borders: list[int], starts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The layer's scan of rows."""
        prepared = layers.fused_post_conv_prep(
            self.mixed, self.a, self.b, self.logarithms, self.bias, KEY_HEADS, KEY, SIZE
        )
        q, k, v, g, beta = (part[None] for part in prepared)
        out, after = layers.chunk_gated_delta_rule(
            q, k, v, g, beta, initial_state=starts, output_final_state=True, cu_seqlens=torch.tensor(borders)
        )
        return out[0], after

    def decode(self, state: torch.Tensor, slots: torch.Tensor, accepted: torch.Tensor | None, **more: Any) -> Any:
        """The layer's update of one decode row with all tokens."""
        q, k, v = self.parts
        out, _ = layers.fused_sigmoid_gating_delta_rule_update(
            self.logarithms,
            self.a,
            self.b,
            self.bias,
            q,
            k,
            v,
            initial_state=state,
            cu_seqlens=torch.tensor([0, self.tokens]),
            ssm_state_indices=slots,
            num_accepted_tokens=accepted,
            use_qk_l2norm_in_kernel=True,
            **more,
        )
        return out[0]


@pytest.mark.parametrize("tokens", [1, 9, layers.CHUNK, 2 * layers.CHUNK + 3])
def test_a_prefill_is_the_recurrence(tokens: int) -> None:
    inputs = Inputs(tokens)
    due, states = inputs.recurrence(inputs.start)
    out, after = inputs.prefill([0, tokens], inputs.start[None])
    torch.testing.assert_close(out, due)
    torch.testing.assert_close(after[0].float(), states[-1].float())


def test_rows_of_a_prefill_start_from_their_own_states() -> None:
    inputs = Inputs(7)
    starts = torch.stack([inputs.start, torch.zeros_like(inputs.start)])
    _, states = inputs.recurrence(inputs.start)
    _, after = inputs.prefill([0, 4, 7], starts)
    torch.testing.assert_close(after[0].float(), states[3].float())
    rest = Inputs(7)
    rest.mixed, rest.a, rest.b, rest.tokens = rest.mixed[4:], rest.a[4:], rest.b[4:], 3
    torch.testing.assert_close(after[1].float(), rest.recurrence(starts[1])[1][-1].float())


def test_a_decode_with_drafts_starts_behind_its_accepted_ones_and_keeps_every_state() -> None:
    inputs = Inputs(3)
    cache = torch.randn(6, HEADS, SIZE, KEY)
    cache[2] = inputs.start
    due, states = inputs.recurrence(inputs.start)
    out = inputs.decode(cache, torch.tensor([[1, 2, 3]]), torch.tensor([2]))  # two accepted: from the second slot
    torch.testing.assert_close(out, due)
    torch.testing.assert_close(cache[1:4], torch.stack(states).float())


def test_packed_decodes_are_one_token_of_each_row() -> None:
    inputs = Inputs(2)
    cache = torch.randn(4, HEADS, SIZE, KEY)
    before = cache.clone()
    out = torch.empty(2, 1, HEADS, SIZE)
    layers.fused_recurrent_gated_delta_rule_packed_decode(
        inputs.mixed,
        inputs.a,
        inputs.b,
        inputs.logarithms,
        inputs.bias,
        KEY**-0.5,
        cache,
        out,
        torch.tensor([3, 1]),
        use_qk_l2norm_in_kernel=True,
    )
    for row, slot in enumerate((3, 1)):
        one = Inputs(2)
        one.mixed, one.a, one.b, one.tokens = one.mixed[row:][:1], one.a[row:][:1], one.b[row:][:1], 1
        due, states = one.recurrence(before[slot])
        torch.testing.assert_close(out[row, 0], due[0])
        torch.testing.assert_close(cache[slot], states[0].float())
    assert (cache[[0, 2]] == before[[0, 2]]).all()


def test_rows_of_the_null_block_touch_nothing() -> None:
    inputs = Inputs(2)
    cache = torch.ones(3, HEADS, SIZE, KEY)
    assert not inputs.decode(cache, torch.tensor([[0, 0]]), torch.tensor([1])).any()
    assert (cache == 1).all()


@pytest.mark.parametrize("more", [{"is_kda": True}, {"unheard_of": 7}, {"inplace_final_state": False}])
def test_an_unknown_argument_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(UnknownArgument):
        Inputs(2).decode(torch.ones(3, HEADS, SIZE, KEY), torch.tensor([[1, 2]]), torch.tensor([1]), **more)

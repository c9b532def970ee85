"""The convolution of layers with states in plain torch, and what all arithmetic of such layers shares.

Each function has the name and the parameters of the one that it stands in for (vllm/model_executor/layers/mamba/ops),
and does what that one does to states: which slot it reads, which it writes, and from which accepted draft it
continues. It calculates in float64. An argument that it does not know must be unset: nothing is ignored silently.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

NULL_BLOCK = 0
"""The block of rows that are padding: nothing is read from it, nothing written to it."""

_IGNORED = frozenset({"pad_slot_id", "null_block_id", "metadata", "validate_data", "max_query_len", "is_blackwell"})
"""Arguments that change no result: they name padding, or help a kernel to choose its grid."""

WIDE = torch.float64


class UnknownArgument(NotImplementedError):
    """The release asks a layer for something that this arithmetic does not have."""


def causal_conv1d_fn(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    conv_states: Tensor,
    query_start_loc: Tensor,
    cache_indices: Tensor,
    has_initial_state: Tensor,
    activation: str | None = "silu",
    **more: Any,
) -> Tensor:
    """The convolution of prefill rows: `x` is (channels, tokens), `conv_states` (slots, channels, window). The last
    tokens of each row become its slot's window."""
    refuse("causal_conv1d_fn", more)
    before = weight.shape[1] - 1
    starts = query_start_loc.tolist()
    out = torch.empty_like(x)
    for row, (slot, continues) in enumerate(zip(cache_indices.tolist(), has_initial_state.tolist(), strict=True)):
        start, end = starts[row], starts[row + 1]
        if start == end or slot == NULL_BLOCK:
            continue
        window = conv_states[slot, :, :before]
        if not continues:
            window = torch.zeros_like(window)
        inputs = torch.cat([window.to(x.dtype), x[:, start:end]], dim=1)
        out[:, start:end] = _convolved(inputs[None], weight, bias, activation)[0].to(x.dtype)
        conv_states[slot, :, :before] = inputs[:, inputs.shape[1] - before :].to(conv_states.dtype)
    return out


def causal_conv1d_update(
    x: Tensor,
    conv_state: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    activation: str | None,
    conv_state_indices: Tensor,
    num_accepted_tokens: Tensor | None = None,
    query_start_loc: Tensor | None = None,
    **more: Any,
) -> Tensor:
    """The convolution of decode rows: `x` is (tokens, channels). With drafts a row continues behind its accepted ones,
    and its slot keeps the inputs of all that it ran."""
    refuse("causal_conv1d_update", more)
    before = weight.shape[1] - 1
    out = torch.empty_like(x)
    first = conv_state_indices if conv_state_indices.dim() == 1 else conv_state_indices[:, 0]
    for length, rows, starts in rows_by_length(first, query_start_loc):
        tokens = starts[:, None] + torch.arange(length)
        slots = first[rows].long()
        offsets = torch.zeros_like(slots)
        if num_accepted_tokens is not None:
            offsets = (num_accepted_tokens[rows].long() - 1).clamp(min=0)
        places = (offsets[:, None] + torch.arange(before))[:, None, :].expand(-1, x.shape[1], -1)
        window = conv_state[slots].gather(2, places)
        inputs = torch.cat([window.to(x.dtype), x[tokens].transpose(1, 2)], dim=2)
        out[tokens] = _convolved(inputs, weight, bias, activation).transpose(1, 2).to(x.dtype)
        kept = inputs[:, :, 1:] if num_accepted_tokens is not None else inputs[:, :, length:]
        conv_state[slots, :, : kept.shape[2]] = kept.to(conv_state.dtype)
    return out


def _convolved(inputs: Tensor, weight: Tensor, bias: Tensor | None, activation: str | bool | None) -> Tensor:
    """`inputs` (rows, channels, tokens) with the window in front, convolved for each channel by itself."""
    result = (inputs.to(WIDE).unfold(2, weight.shape[1], 1) * weight.to(WIDE)[None, :, None, :]).sum(-1)
    if bias is not None:
        result = result + bias.to(WIDE)[None, :, None]
    assert activation in ("silu", "swish", True, None, False)
    return functional.silu(result) if activation else result


def store(state: Tensor, slots: Tensor, held: Tensor) -> None:
    """Keep states in their slots; a row without a slot keeps none."""
    kept = slots != NULL_BLOCK
    state[slots[kept].long()] = held[kept].to(state.dtype)


def rows_by_length(slots: Tensor, starts: Tensor | None) -> list[tuple[int, Tensor, Tensor]]:
    """Rows that are no padding, in groups of equal length: the length, which rows, and where their tokens begin."""
    numbers = slots.tolist()
    places = list(range(len(numbers) + 1)) if starts is None else starts.tolist()
    groups: dict[int, list[int]] = {}
    for row, slot in enumerate(numbers):
        length = places[row + 1] - places[row]
        if length > 0 and slot != NULL_BLOCK:
            groups.setdefault(length, []).append(row)
    return [
        (length, torch.tensor(rows), torch.tensor([places[row] for row in rows])) for length, rows in groups.items()
    ]


def refuse(function: str, more: dict[str, Any]) -> None:
    """Raise UnknownArgument for an argument that is set and that this arithmetic does not know."""
    for name, value in more.items():
        if name not in _IGNORED and value is not None and value is not False:
            if isinstance(value, int | float) and value == 0:
                continue
            raise UnknownArgument(f"{function} was called with {name}, which its stand-in does not know")

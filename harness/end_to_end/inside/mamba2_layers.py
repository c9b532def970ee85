"""The arithmetic of Mamba2 layers in plain torch: what vLLM has as Triton kernels, which a CPU cannot run.

Each function has the name and the parameters of the one that it stands in for (vllm/model_executor/layers/mamba/ops),
and does what that one does to states: which slot it reads, which it writes, and from which accepted draft it
continues. It calculates in float64. An argument that it does not know must be unset: nothing is ignored silently.
"""

from __future__ import annotations

import itertools
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
    _refuse("causal_conv1d_fn", more)
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
    _refuse("causal_conv1d_update", more)
    before = weight.shape[1] - 1
    out = torch.empty_like(x)
    first = conv_state_indices if conv_state_indices.dim() == 1 else conv_state_indices[:, 0]
    for length, rows, starts in _rows_by_length(first, query_start_loc):
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


def selective_state_update(
    state: Tensor,
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor,
    dt_bias: Tensor,
    z: Tensor | None = None,
    dt_softplus: bool = False,
    state_batch_indices: Tensor | None = None,
    dst_state_batch_indices: Tensor | None = None,
    out: Tensor | None = None,
    num_accepted_tokens: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    **more: Any,
) -> None:
    """The state of decode rows: `state` is (slots, heads, size, states). With drafts a row starts from the slot behind
    its accepted ones, and leaves the state after each token in that token's slot."""
    _refuse("selective_state_update", {**more, "z": z})
    assert out is not None
    assert state_batch_indices is not None
    assert dt_softplus, "Mamba2 layers of vLLM always pass softplus"
    sources = state_batch_indices if state_batch_indices.dim() == 2 else state_batch_indices[:, None]
    targets = sources if dst_state_batch_indices is None else dst_state_batch_indices
    targets = targets if targets.dim() == 2 else targets[:, None]
    decay, wide_bias, direct = A.to(WIDE), dt_bias.to(WIDE), D.to(WIDE)
    repeat = x.shape[1] // B.shape[1]
    for length, rows, starts in _rows_by_length(sources[:, 0], cu_seqlens):
        slots = sources[rows, 0]
        if num_accepted_tokens is not None:
            slots = sources[rows, (num_accepted_tokens[rows].long() - 1).clamp(min=0)]
        held = state[slots.long()].to(WIDE)
        for step in range(length):
            tokens = starts + step
            inputs = x[tokens].to(WIDE)
            size = functional.softplus(dt[tokens].to(WIDE) + wide_bias)
            into = B[tokens].to(WIDE).repeat_interleave(repeat, dim=1)
            outof = C[tokens].to(WIDE).repeat_interleave(repeat, dim=1)
            held = held * torch.exp(size[..., None] * decay) + (size * inputs)[..., None] * into[:, :, None, :]
            out[tokens] = ((held * outof[:, :, None, :]).sum(-1) + direct * inputs).to(out.dtype)
            if num_accepted_tokens is not None:
                _store(state, targets[rows, step], held)
        if num_accepted_tokens is None:
            _store(state, targets[rows, 0], held)


def mamba_chunk_scan_combined_varlen(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    chunk_size: int,
    cu_seqlens: Tensor,
    cu_chunk_seqlens: Tensor,
    last_chunk_indices: Tensor,
    seq_idx: Tensor,
    out: Tensor,
    D: Tensor,
    z: Tensor | None = None,
    dt_bias: Tensor | None = None,
    initial_states: Tensor | None = None,
    dt_softplus: bool = False,
    dt_limit: tuple[float, float] = (0.0, float("inf")),
    return_intermediate_states: bool = False,
    state_dtype: torch.dtype | None = None,
    final_states_out: Tensor | None = None,
    final_state_indices: Tensor | None = None,
    **more: Any,
) -> Tensor | None:
    """The states of prefill rows: `x` is (tokens, heads, size). Returns the state after each chunk, or after each
    row; with `final_states_out` the latter goes there instead."""
    del chunk_size, last_chunk_indices, seq_idx
    _refuse("mamba_chunk_scan_combined_varlen", {**more, "z": z})
    assert dt_bias is not None
    assert dt_softplus
    assert dt_limit == (0.0, float("inf"))
    repeat = x.shape[1] // B.shape[1]
    inputs, direct = x.to(WIDE), D.to(WIDE)
    size = functional.softplus(dt.to(WIDE) + dt_bias.to(WIDE))
    into = B.to(WIDE).repeat_interleave(repeat, dim=1)
    outof = C.to(WIDE).repeat_interleave(repeat, dim=1)
    borders = cu_chunk_seqlens.tolist()
    row_ends = cu_seqlens.tolist()[1:]
    shape = (x.shape[1], x.shape[2], B.shape[2])
    row, held, after_chunk, after_row = 0, _first_state(initial_states, 0, shape), [], []
    for start, end in itertools.pairwise(borders):
        while row < len(row_ends) - 1 and start >= row_ends[row]:
            after_row.append(held)
            row += 1
            held = _first_state(initial_states, row, shape)
        if end > start:
            part = slice(start, end)
            result, held = _scan(held, inputs[part], size[part], A.to(WIDE), into[part], outof[part])
            skip = direct[:, None] if direct.dim() == 1 else direct
            out[part] = (result + skip * inputs[part]).to(out.dtype)
        after_chunk.append(held)
    after_row.append(held)
    if final_states_out is not None:
        assert final_state_indices is not None
        for slot, final in zip(final_state_indices.tolist(), after_row, strict=True):
            final_states_out[slot] = final.to(final_states_out.dtype)
        if not return_intermediate_states:
            return None
    return torch.stack(after_chunk if return_intermediate_states else after_row).to(state_dtype or x.dtype)


def store_prefill_checkpoint(
    checkpoint: Any,
    chunk_idx: Tensor,
    x: Tensor,
    conv_state: Tensor,
    chunk_states: Tensor,
    ssm_state: Tensor,
    query_start_loc: Tensor,
    *,
    state_len: int,
) -> None:
    """Export the states in the middle of prefill rows to their blocks; a row whose offset is 0 exports none."""
    offsets, blocks = checkpoint.checkpoint_offsets.tolist(), checkpoint.state_indices.tolist()
    starts = query_start_loc.tolist()
    for row, chunk in enumerate(chunk_idx.tolist()):
        if offsets[row] <= 0:
            continue
        end = starts[row] + offsets[row]
        conv_state[blocks[row], :, :state_len] = x[:, end - state_len : end].to(conv_state.dtype)
        ssm_state[blocks[row]] = chunk_states[chunk].to(ssm_state.dtype)


def _convolved(inputs: Tensor, weight: Tensor, bias: Tensor | None, activation: str | bool | None) -> Tensor:
    """`inputs` (rows, channels, tokens) with the window in front, convolved for each channel by itself."""
    result = (inputs.to(WIDE).unfold(2, weight.shape[1], 1) * weight.to(WIDE)[None, :, None, :]).sum(-1)
    if bias is not None:
        result = result + bias.to(WIDE)[None, :, None]
    assert activation in ("silu", "swish", True, None, False)
    return functional.silu(result) if activation else result


def _scan(
    held: Tensor,
    inputs: Tensor,
    size: Tensor,
    decay: Tensor,
    into: Tensor,
    outof: Tensor,
) -> tuple[Tensor, Tensor]:
    """The outputs of some tokens that follow a state, and the state after them."""
    passed = torch.cumsum(size * decay, dim=0)
    between = passed[:, None, :] - passed[None, :, :]
    later = torch.ones(between.shape[:2], dtype=torch.bool).tril()[..., None]
    weights = torch.exp(torch.where(later, between, -torch.inf)) * torch.einsum("thn,shn->tsh", outof, into)
    scaled = size[..., None] * inputs
    result = torch.einsum("tsh,shp->thp", weights, scaled)
    result += torch.einsum("thn,hpn->thp", outof * torch.exp(passed)[..., None], held)
    left = torch.exp(passed[-1] - passed)
    added = torch.einsum("shp,shn->hpn", left[..., None] * scaled, into)
    return result, held * torch.exp(passed[-1])[:, None, None] + added


def _first_state(initial: Tensor | None, row: int, shape: tuple[int, ...]) -> Tensor:
    return torch.zeros(shape, dtype=WIDE) if initial is None else initial[row].to(WIDE)


def _store(state: Tensor, slots: Tensor, held: Tensor) -> None:
    kept = slots != NULL_BLOCK
    state[slots[kept].long()] = held[kept].to(state.dtype)


def _rows_by_length(slots: Tensor, starts: Tensor | None) -> list[tuple[int, Tensor, Tensor]]:
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


def _refuse(function: str, more: dict[str, Any]) -> None:
    """Raise UnknownArgument for an argument that is set and that this arithmetic does not know."""
    for name, value in more.items():
        if name not in _IGNORED and value is not None and value is not False:
            if isinstance(value, int | float) and value == 0:
                continue
            raise UnknownArgument(f"{function} was called with {name}, which its stand-in does not know")

"""The arithmetic of Mamba2 layers in plain torch: what vLLM has as Triton kernels, which a CPU cannot run.

Each function has the name and the parameters of the one that it stands in for (vllm/model_executor/layers/mamba/ops);
what holds for the convolution (`convolution.py`) holds here.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from harness.end_to_end.inside.convolution import WIDE, refuse, rows_by_length, store


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
    refuse("selective_state_update", {**more, "z": z})
    assert out is not None
    assert state_batch_indices is not None
    assert dt_softplus, "Mamba2 layers of vLLM always pass softplus"
    sources = state_batch_indices if state_batch_indices.dim() == 2 else state_batch_indices[:, None]
    targets = sources if dst_state_batch_indices is None else dst_state_batch_indices
    targets = targets if targets.dim() == 2 else targets[:, None]
    decay, wide_bias, direct = A.to(WIDE), dt_bias.to(WIDE), D.to(WIDE)
    repeat = x.shape[1] // B.shape[1]
    for length, rows, starts in rows_by_length(sources[:, 0], cu_seqlens):
        slots = sources[rows, 0]
        if num_accepted_tokens is not None:
            slots = sources[rows, (num_accepted_tokens[rows].long() - 1).clamp(min=0)]
        held = state[slots.long()].to(WIDE)
        # Tokens of a row follow each other; what needs no state is calculated for all of them at once.
        tokens = starts + torch.arange(length)[:, None]
        inputs = x[tokens].to(WIDE)
        size = functional.softplus(dt[tokens].to(WIDE) + wide_bias)
        into = B[tokens].to(WIDE).repeat_interleave(repeat, dim=2)[:, :, :, None, :]
        outof = C[tokens].to(WIDE).repeat_interleave(repeat, dim=2)[:, :, :, None, :]
        left, added = torch.exp(size[..., None] * decay), (size * inputs)[..., None] * into
        after: list[Tensor] = []
        for step in range(length):
            held = held * left[step] + added[step]
            after.append(held)
        states = torch.stack(after)
        out[tokens] = ((states * outof).sum(-1) + direct * inputs).to(out.dtype)
        if num_accepted_tokens is not None:
            store(state, targets[rows, :length].T.reshape(-1), states.flatten(0, 1))
        else:
            store(state, targets[rows, 0], held)


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
    refuse("mamba_chunk_scan_combined_varlen", {**more, "z": z})
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

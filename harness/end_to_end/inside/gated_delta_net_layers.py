"""The arithmetic of gated delta nets in plain torch: what vLLM has as Triton kernels, which a CPU cannot run.

Each function has the name and the parameters of the one that it stands in for
(vllm/third_party/flash_linear_attention/ops); what holds for the convolution (`convolution.py`) holds here. The state
of a head is a matrix from keys to values. A token lets it decay, looks up what it has for the token's key, and adds a
part of the difference to the token's value: the delta rule.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from harness.end_to_end.inside.convolution import WIDE, UnknownArgument, refuse, rows_by_length, store

CHUNK = 64
"""Tokens of a prefill that are calculated at once."""

SMALL = 1e-6
"""Added to squared lengths of keys and queries."""


def fused_post_conv_prep(
    conv_output: Tensor,
    a: Tensor,
    b: Tensor,
    A_log: Tensor,
    dt_bias: Tensor,
    num_k_heads: int,
    head_k_dim: int,
    head_v_dim: int,
    apply_l2norm: bool = True,
    output_g_exp: bool = False,
) -> tuple[Tensor, ...]:
    """Queries, keys and values of prefill rows, the logarithm of the decay, and the part that is added. All are wide,
    so that nothing is lost between this function and the next one."""
    keys = num_k_heads * head_k_dim
    tokens = conv_output.shape[0]
    wide = conv_output.to(WIDE)
    q = wide[:, :keys].reshape(tokens, num_k_heads, head_k_dim)
    k = wide[:, keys : 2 * keys].reshape(tokens, num_k_heads, head_k_dim)
    v = wide[:, 2 * keys :].reshape(tokens, A_log.shape[0], head_v_dim)
    if apply_l2norm:
        q, k = _normalised(q), _normalised(k)
    decay = _decay(a, A_log, dt_bias)
    return q, k, v, torch.exp(decay) if output_g_exp else decay, torch.sigmoid(b.to(WIDE))


def chunk_gated_delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    cu_seqlens: Tensor | None = None,
    chunk_indices: Tensor | None = None,
    chunk_offsets: Tensor | None = None,
    use_qk_l2norm_in_kernel: bool = False,
    core_attn_out: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The outputs of prefill rows, (1, tokens, heads, size of a value), and the state after each row. `initial_state`
    is (rows, heads, size of a value, size of a key)."""
    del chunk_indices, chunk_offsets, output_final_state
    refuse("chunk_gated_delta_rule", {"core_attn_out": core_attn_out})
    assert cu_seqlens is not None
    assert initial_state is not None
    scale = k.shape[-1] ** -0.5 if scale is None else scale
    queries, keys, values = q[0].to(WIDE), k[0].to(WIDE), v[0].to(WIDE)
    if use_qk_l2norm_in_kernel:
        queries, keys = _normalised(queries), _normalised(keys)
    repeat = values.shape[1] // keys.shape[1]
    queries, keys = (part.repeat_interleave(repeat, dim=1) for part in (queries * scale, keys))
    decays, parts = g[0].to(WIDE), beta[0].to(WIDE)
    out = torch.zeros(v.shape, dtype=torch.float32)
    states = []
    borders = cu_seqlens.tolist()
    for row in range(len(borders) - 1):
        held = initial_state[row].to(WIDE)
        for start in range(borders[row], borders[row + 1], CHUNK):
            part = slice(start, min(start + CHUNK, borders[row + 1]))
            result, held = _chunk(held, queries[part], keys[part], values[part], decays[part], parts[part])
            out[0, part] = result.to(out.dtype)
        states.append(held)
    return out, torch.stack(states)


def fused_recurrent_gated_delta_rule_packed_decode(
    mixed_qkv: Tensor,
    a: Tensor,
    b: Tensor,
    A_log: Tensor,
    dt_bias: Tensor,
    scale: float,
    initial_state: Tensor,
    out: Tensor,
    ssm_state_indices: Tensor,
    use_qk_l2norm_in_kernel: bool = False,
    **more: Any,
) -> tuple[Tensor, Tensor]:
    """The state of decode rows of one token: `initial_state` is (slots, heads, size of a value, size of a key), `out`
    (rows, 1, heads, size of a value)."""
    refuse("fused_recurrent_gated_delta_rule_packed_decode", more)
    heads, value_size, key_size = initial_state.shape[-3:]
    keys = (mixed_qkv.shape[1] - heads * value_size) // 2
    query, key, value = torch.split(mixed_qkv, [keys, keys, heads * value_size], dim=1)
    rows = mixed_qkv.shape[0]
    result, state = fused_sigmoid_gating_delta_rule_update(
        A_log=A_log,
        a=a,
        b=b,
        dt_bias=dt_bias,
        q=query.reshape(1, rows, -1, key_size),
        k=key.reshape(1, rows, -1, key_size),
        v=value.reshape(1, rows, heads, value_size),
        scale=scale,
        initial_state=initial_state,
        ssm_state_indices=ssm_state_indices,
        use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel,
    )
    out.copy_(result.reshape(out.shape))
    return out, state


def fused_sigmoid_gating_delta_rule_update(
    A_log: Tensor,
    a: Tensor,
    b: Tensor,
    dt_bias: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: float = 1.0,
    threshold: float = 20.0,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    inplace_final_state: bool = True,
    cu_seqlens: Tensor | None = None,
    ssm_state_indices: Tensor | None = None,
    num_accepted_tokens: Tensor | None = None,
    use_qk_l2norm_in_kernel: bool = False,
    is_kda: bool = False,
    **more: Any,
) -> tuple[Tensor, Tensor]:
    """The state of decode rows. With drafts a row starts from the slot behind its accepted ones, and leaves the state
    after each token in that token's slot. Without `cu_seqlens` each token is a row."""
    refuse("fused_sigmoid_gating_delta_rule_update", {**more, "is_kda": is_kda})
    assert initial_state is not None
    assert ssm_state_indices is not None
    if not inplace_final_state or beta != 1.0:
        raise UnknownArgument("states of gated delta nets are kept in place, and softplus is not scaled")
    del threshold  # where softplus is a straight line in the original; torch's own is exact there
    scale = k.shape[-1] ** -0.5 if scale is None else scale
    slots = ssm_state_indices if ssm_state_indices.dim() == 2 else ssm_state_indices[:, None]
    rows_there = slots.shape[0] if cu_seqlens is None else cu_seqlens.shape[0] - 1
    slots = slots[:rows_there]
    queries, keys, values = q[0].to(WIDE), k[0].to(WIDE), v[0].to(WIDE)
    if use_qk_l2norm_in_kernel:
        queries, keys = _normalised(queries), _normalised(keys)
    repeat = values.shape[1] // keys.shape[1]
    queries, keys = (part.repeat_interleave(repeat, dim=1) for part in (queries * scale, keys))
    decay, parts = torch.exp(_decay(a, A_log, dt_bias)), torch.sigmoid(b.to(WIDE))
    out = torch.zeros(v.shape, dtype=q.dtype)
    for length, rows, starts in rows_by_length(slots[:, 0], cu_seqlens):
        sources = slots[rows, 0]
        if num_accepted_tokens is not None:
            sources = slots[rows, (num_accepted_tokens[rows].long() - 1).clamp(min=0)]
        held = initial_state[sources.long()].to(WIDE)
        for step in range(length):
            tokens = starts + step
            held = held * decay[tokens][..., None, None]
            known = (held * keys[tokens][:, :, None, :]).sum(-1)
            added = parts[tokens][..., None] * (values[tokens] - known)
            held = held + added[..., None] * keys[tokens][:, :, None, :]
            out[0, tokens] = (held * queries[tokens][:, :, None, :]).sum(-1).to(out.dtype)
            if num_accepted_tokens is not None:
                store(initial_state, slots[rows, step], held)
        if num_accepted_tokens is None:
            store(initial_state, slots[rows, 0], held)
    return out, initial_state


def _chunk(
    held: Tensor, queries: Tensor, keys: Tensor, values: Tensor, decays: Tensor, parts: Tensor
) -> tuple[Tensor, Tensor]:
    """The outputs of some tokens that follow a state, and the state after them. What each token adds depends on what
    those before it added: a triangular system."""
    passed = torch.cumsum(decays, dim=0).T  # (heads, tokens)
    between = passed[:, :, None] - passed[:, None, :]
    earlier = torch.ones(between.shape[-2:], dtype=torch.bool).tril()
    weights = torch.exp(torch.where(earlier, between, -torch.inf))
    share = parts.T[..., None]
    alike = torch.einsum("thk,shk->hts", keys, keys) * weights * share
    system = torch.eye(alike.shape[-1], dtype=WIDE) + alike.tril(-1)
    grown = torch.exp(passed)[..., None]
    known = torch.einsum("thk,hvk->htv", keys, held) * grown
    added = torch.linalg.solve_triangular(system, share * (values.transpose(0, 1) - known), upper=False)
    seen = torch.einsum("thk,shk->hts", queries, keys) * weights
    result = torch.einsum("thk,hvk->htv", queries, held) * grown + seen @ added
    left = torch.exp(passed[:, -1:] - passed)[..., None]
    return result.transpose(0, 1), held * torch.exp(passed[:, -1])[:, None, None] + torch.einsum(
        "htv,thk->hvk", left * added, keys
    )


def _decay(a: Tensor, A_log: Tensor, dt_bias: Tensor) -> Tensor:
    """The logarithm of what each token leaves of a state, by head."""
    return -torch.exp(A_log.to(WIDE)) * functional.softplus(a.to(WIDE) + dt_bias.to(WIDE))


def _normalised(vectors: Tensor) -> Tensor:
    return vectors * torch.rsqrt((vectors * vectors).sum(-1, keepdim=True) + SMALL)

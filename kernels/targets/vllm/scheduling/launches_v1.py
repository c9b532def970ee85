"""A launch of the V1 host code is a call of one of its kernels: here, what the kernel does to slots and counts.

Without a GPU driver the release's kernels cannot be launched. Those that determine where attention writes, and the
inputs of a drafter, are implemented again here; they were plain Triton kernels up to 0.30 and are callable objects
since.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from harness.kernels.targets.vllm.scheduling.loading import module
from harness.kernels.targets.vllm.scheduling.runner_pair import HostCodeLacks
from harness.refusal import UnknownTarget

_NOWHERE = -1
"""The slot of padding, which has no token."""


class _Launch:
    """Takes the place of a kernel: `kernel[grid](...)` and `kernel(...)` run `body` on the arguments by name."""

    def __init__(self, body: Callable[[dict[str, Any]], None], names: list[str]) -> None:
        self._body, self._names = body, names

    def __getitem__(self, grid: Any) -> _Launch:
        return self

    def __call__(self, *values: Any, **named: Any) -> None:
        given = {**dict(zip(self._names, values, strict=False)), **named}
        try:
            self._body({name.removesuffix("_ptr"): value for name, value in given.items()})
        except KeyError as error:
            raise HostCodeLacks(f"a kernel of this release's V1 host code gets no {error}") from error

    def register_warmup(self, *_: Any, **__: Any) -> None:
        """Nothing: there is nothing to compile ahead."""


def _compute_slot_mapping(given: dict[str, Any]) -> None:
    """Where each token's keys and values are written: the slot in a block of its request's row."""
    import numpy as np

    size = given.get("kv_cache_block_size") or given.get("KV_CACHE_BLOCK_SIZE") or given["block_size"]
    positions, slots = given["positions"].numpy(), given["slot_mapping"].numpy()
    lengths = np.diff(given["query_start_loc"].numpy())
    rows = np.repeat(np.arange(len(lengths)), lengths)
    cells = rows * given["block_table_stride"] + positions // size
    blocks = given["block_table"].numpy().reshape(-1).take(cells, mode="clip").astype(np.int64)
    slots[: len(positions)] = blocks * size + positions % size
    slots[len(positions) :] = _NOWHERE


def _prepare_next_token(given: dict[str, Any]) -> None:
    """How many tokens of each row are valid, and the last of them; none for rows that sample nothing."""
    import torch

    sampled = given["sampled_token_ids"]
    valid = (sampled != -1) & (sampled < given["vocab_size"])
    counts = valid.sum(dim=1)
    last = sampled.gather(1, (counts - 1).clamp(min=0).unsqueeze(1)).squeeze(1).to(torch.int32)
    discarded = given["discard_request_mask"][: len(counts)]
    backup = given["backup_next_token_ids"][: len(counts)]
    given["next_token_ids"].copy_(torch.where(discarded | (counts == 0), backup, last))
    given["valid_sampled_tokens_count"].copy_(torch.where(discarded, 0, counts))


def _prepare_inputs(given: dict[str, Any]) -> None:
    """Where the drafter samples in each row; the tokens after that are rejected."""
    import torch

    ends = given["cu_num_draft_tokens"]
    drafts = torch.diff(ends, prepend=ends.new_zeros(1))
    rejected = torch.where(drafts > 0, drafts + 1 - given["valid_sampled_tokens_count"], 0)
    starts = given["query_start_loc"] if "query_start_loc" in given else given["query_start_loc_gpu"]
    given["token_indices_to_sample"].copy_(starts[1 : len(drafts) + 1] - 1 - rejected)
    given["num_rejected_tokens_gpu"].copy_(rejected)


class _Place(NamedTuple):
    """Where a kernel is, its two possible names, and what it does."""

    module: str
    names: tuple[str, str]
    body: Callable[[dict[str, Any]], None]


_PLACES = (
    _Place(
        "vllm.v1.worker.block_table",
        ("_COMPUTE_SLOT_MAPPING_KERNEL", "_compute_slot_mapping_kernel"),
        _compute_slot_mapping,
    ),
    _Place(
        "vllm.v1.spec_decode.llm_base_proposer",
        ("_eagle_prepare_next_token_padded", "eagle_prepare_next_token_padded_kernel"),
        _prepare_next_token,
    ),
    _Place(
        "vllm.v1.spec_decode.llm_base_proposer",
        ("_eagle_prepare_inputs_padded", "eagle_prepare_inputs_padded_kernel"),
        _prepare_inputs,
    ),
)


def _found(place: _Place) -> tuple[Any, str, Any]:
    holder = module(place.module)
    for name in place.names:
        if hasattr(holder, name):
            return holder, name, getattr(holder, name)
    raise UnknownTarget(f"{place.module} has no {' or '.join(place.names)}")


def _parameters(kernel: Any) -> list[str]:
    """Names of a kernel's parameters."""
    function = inspect.unwrap(getattr(kernel, "fn", kernel))
    if not inspect.isfunction(function):
        function = type(function).__call__
    parameters = inspect.signature(function).parameters
    names = [name for name, one in parameters.items() if name != "self" and one.kind is not one.VAR_POSITIONAL]
    handed_on = any(one.kind is one.VAR_POSITIONAL for one in parameters.values())
    return names + _parameters(kernel.kernel) if handed_on else names


def require_launches() -> None:
    """Raise UnknownTarget if the loaded release lacks one of these kernels."""
    for place in _PLACES:
        _found(place)


def replace_launches() -> None:
    """Replace the kernels of the loaded release's V1 host code by these bodies. Raises UnknownTarget."""
    for place in _PLACES:
        holder, name, kernel = _found(place)
        if not isinstance(kernel, _Launch):
            setattr(holder, name, _Launch(place.body, _parameters(kernel)))

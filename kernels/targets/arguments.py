"""Arguments are what a model runner passes to an entry point for one call, in addition to what the target is bound to.

Tensors are int32 on the device unless stated otherwise, with an entry for each request slot (`[table_rows]`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray


@dataclass(frozen=True)
class AdvanceArrays:
    """One advance (V2). `query_start` has `num_requests + 1` entries; `mapping` has `num_requests`, none negative.

    `state_column` and `accepted` are updated in place; `source_column` and `bias` are results.
    """

    num_requests: int
    state_column: torch.Tensor
    accepted: torch.Tensor
    computed: torch.Tensor
    source_column: torch.Tensor
    bias: torch.Tensor
    query_start: torch.Tensor
    mapping: torch.Tensor


@dataclass(frozen=True)
class AlignedIndicesArrays:
    """One batch of aligned indices (V2): `length` and `mapping` by batch row, `num_requests` of them.

    Table rows are by slot here; the runner part of a target gathers those that `mapping` names in batch order.
    """

    num_requests: int
    length: torch.Tensor
    mapping: torch.Tensor


@dataclass(frozen=True)
class AcceptedArrays:
    """Accepted counts to be set (V2) where `mapping` does not skip: `sampled` by batch row, or one number for all."""

    accepted: torch.Tensor
    sampled: torch.Tensor | int
    mapping: torch.Tensor


@dataclass(frozen=True)
class HostRequest:
    """One request as the V1 runner knows it. `blocks[group]` is its row of the group's block table."""

    name: str
    computed: int
    scheduled: int
    draft: int = 0
    blocks: Sequence[Sequence[int]] = ()


@dataclass(frozen=True)
class HostBatch:
    """The requests of the V1 runner, those of the batch first, and what it keeps about them on the host.

    `columns` (request name to column) and `accepted`, int32 on the host by batch row, are updated in place. `finished`,
    `preempted` and `resumed` are names.
    """

    num_requests: int
    requests: Sequence[HostRequest]
    columns: dict[str, int]
    accepted: torch.Tensor
    finished: Collection[str] = ()
    preempted: Collection[str] = ()
    resumed: Collection[str] = ()


@dataclass(frozen=True)
class StateMove:
    """Every state of a request moves from `source` to `destination` (columns), advanced by `bias` tokens."""

    request: HostRequest
    source: int
    destination: int
    bias: int


class StagedView(NamedTuple):
    """A view on the host and its mirror on the device, one int32 entry for each batch row."""

    host: NDArray[np.int32]
    device: torch.Tensor

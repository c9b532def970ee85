"""Arguments are what a model runner hands to an entry point for one call, beside what the target was bound to.

Tensors are int32 on the device unless said otherwise, with an entry for each request slot (`[table_rows]`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class AdvanceArrays:
    """One advance (V2). `query_start` has `num_requests + 1` entries; `mapping` `num_requests`, none of them negative.

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

"""A call is how one kind of operation is asked of a target, and what of its outcome the host can see.

What happens in the case's memory is compared for every operation alike. Beyond that a target may keep results in
buffers of its own, or hand them to the host: a call reads those before and after, as int64 arrays by name. The oracle
says which of their entries change (`harness.oracles.expected`); all others must stay.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.case import Case
from harness.kernels.targets.base import Bound
from harness.memory import Image, MemoryPlan

if TYPE_CHECKING:
    import torch

Tensors = Mapping[str, "torch.Tensor"]
"""Arguments of one operation, by name; a mapping is as long as the batch."""
Results = dict[str, NDArray[np.int64]]


class Call(abc.ABC):
    """One kind of operation. Raises what the target raises."""

    by_harness = False
    """Whether no target has a part in it: memory simply becomes what is expected."""

    def unbound(self, case: Case, index: int) -> bool:
        """Whether the target must be bound to no memory yet."""
        return False

    def prepare(self, bound: Bound, case: Case, index: int, before: Before) -> Any:
        """Objects on the host that the runner owns, for `run` and `results`; None if there are none.

        What the target keeps for the host is brought into a state that the case alone decides.
        """
        return None

    @abc.abstractmethod
    def run(self, bound: Bound, case: Case, index: int, tensors: Tensors, host: Any) -> None:
        """Call the target's entry point."""

    def results(self, bound: Bound, case: Case, index: int, host: Any) -> Results:
        """What the host can see of operation `index`, beside the case's memory."""
        return {}


@dataclass(frozen=True)
class Before:
    """Memory as an operation finds it."""

    plan: MemoryPlan
    image: Image

    def table_row(self, group: int, slot: int) -> list[int]:
        """All cells of a block-table row."""
        width = self.plan.base.layout.table_columns
        row = self.image.view(self.plan.base.table_cell(group, slot, 0), 4 * width).view(np.int32)
        return [int(block) for block in row]


def as_numbers(tensor: torch.Tensor) -> NDArray[np.int64]:
    """A copy of a device tensor's integers, one after the other."""
    numbers: NDArray[Any] = tensor.detach().cpu().numpy()
    return numbers.astype(np.int64).reshape(-1)

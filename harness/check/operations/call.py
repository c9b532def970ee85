"""A call is how one kind of operation is asked of a target, and what of its outcome the host can see.

What happens in the case's memory is compared for every operation alike. Beyond that a target may keep results in
buffers of its own, or hand them to the host: a call reads those before and after, as int64 arrays by name. The oracle
says which of their entries change (`harness.oracles.expected`); all others must stay.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.case import Case
from harness.kernels.targets.base import Bound

if TYPE_CHECKING:
    import torch

Tensors = Mapping[str, "torch.Tensor"]
"""Arguments of one operation, by name; a mapping is as long as the batch."""
Results = dict[str, NDArray[np.int64]]


class Call(abc.ABC):
    """One kind of operation. Raises what the target raises."""

    def prepare(self, bound: Bound, case: Case, index: int) -> None:  # noqa: B027 - most operations need nothing
        """Bring what the target keeps for the host into a state that the case decides."""

    @abc.abstractmethod
    def run(self, bound: Bound, case: Case, index: int, tensors: Tensors) -> None:
        """Call the target's entry point."""

    def results(self, bound: Bound, case: Case, index: int) -> Results:
        """What the host can see of operation `index`, beside the case's memory."""
        return {}


def as_numbers(tensor: torch.Tensor) -> NDArray[np.int64]:
    """A copy of a device tensor's integers, one after the other."""
    numbers: NDArray[Any] = tensor.detach().cpu().numpy()
    return numbers.astype(np.int64).reshape(-1)

"""A call runs one kind of operation on a target, and reads those of its results that the host can see.

The case's memory is compared in the same way for every operation. In addition, a target may keep results in its own
buffers or return them to the host: a call reads those before and after, as int64 arrays by name. The oracle says which
of their entries change (`harness.oracles.expected`); all others must not.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from harness.case import Op
from harness.kernels.targets.base import Bound
from harness.oracles.before import Before

if TYPE_CHECKING:
    import torch

Tensors = Mapping[str, "torch.Tensor"]
"""Arguments of one operation, by name; a mapping is as long as the batch."""
Results = dict[str, NDArray[np.int64]]
Host = TypeVar("Host")
"""Objects on the host that the runner owns, made for one operation."""


class Call(abc.ABC, Generic[Op, Host]):
    """One kind of operation. Raises what the target raises."""

    by_harness: ClassVar[bool] = False
    """Whether no target is involved: memory simply becomes what is expected."""

    def unbound(self, operation: Op) -> bool:
        """Whether the target must not be bound to memory yet."""
        return False

    @abc.abstractmethod
    def prepare(self, bound: Bound, operation: Op, before: Before) -> Host:
        """What the runner owns, for `run` and `results`.

        It also puts what the target keeps for the host into a state that depends only on the case.
        """

    @abc.abstractmethod
    def run(self, bound: Bound, operation: Op, tensors: Tensors, host: Host) -> None:
        """Call the target's entry point."""

    def results(self, bound: Bound, operation: Op, host: Host) -> Results:
        """What the host can see of the operation, in addition to the case's memory."""
        return {}


class DeviceCall(Call[Op, None]):
    """A kind of operation whose arguments are all on the device."""

    def prepare(self, bound: Bound, operation: Op, before: Before) -> None:
        """Nothing."""


def as_numbers(tensor: torch.Tensor) -> NDArray[np.int64]:
    """A copy of a device tensor's integers, one after the other."""
    numbers: NDArray[Any] = tensor.detach().cpu().numpy()
    return numbers.astype(np.int64).reshape(-1)

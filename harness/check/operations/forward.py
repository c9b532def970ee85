"""How the forward pass and table edits happen: no target is called."""

from __future__ import annotations

from typing import ClassVar

from harness.case import Op
from harness.check.operations.call import DeviceCall, Tensors
from harness.kernels.targets.base import Bound


class HarnessCall(DeviceCall[Op]):
    """Memory becomes what the oracle expects; the comparison then finds what the target did to it in between."""

    by_harness: ClassVar[bool] = True

    def run(self, bound: Bound, operation: Op, tensors: Tensors, host: None) -> None:
        """Nothing."""

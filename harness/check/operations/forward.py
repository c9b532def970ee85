"""How the forward pass and table edits happen: nobody is called."""

from __future__ import annotations

from typing import Any

from harness.case import Case
from harness.check.operations.call import Call, Tensors
from harness.kernels.targets.base import Bound


class HarnessCall(Call):
    """Memory becomes what the oracle says; the comparison then finds what the target did to it in between."""

    by_harness = True

    def run(self, bound: Bound, case: Case, index: int, tensors: Tensors, host: Any) -> None:
        """Nothing."""

"""How accepted counts are scattered and filled."""

from __future__ import annotations

from typing import Any

from harness.case import Case, FillAccepted
from harness.check.operations.call import Call, Tensors
from harness.kernels.targets.arguments import AcceptedArrays
from harness.kernels.targets.base import Bound


class ScatterCall(Call):
    def run(self, bound: Bound, case: Case, index: int, tensors: Tensors, host: Any) -> None:
        bound.scatter_accepted(AcceptedArrays(tensors["accepted"], tensors["sampled"], tensors["mapping"]))


class FillCall(Call):
    def run(self, bound: Bound, case: Case, index: int, tensors: Tensors, host: Any) -> None:
        operation = case.program[index]
        assert isinstance(operation, FillAccepted)
        bound.fill_accepted(AcceptedArrays(tensors["accepted"], operation.sampled, tensors["mapping"]))

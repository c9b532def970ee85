"""How accepted counts are scattered and filled."""

from __future__ import annotations

from harness.case import FillAccepted, ScatterAccepted
from harness.check.operations.call import DeviceCall, Tensors
from harness.kernels.targets.arguments import AcceptedArrays
from harness.kernels.targets.base import Bound


class ScatterCall(DeviceCall[ScatterAccepted]):
    def run(self, bound: Bound, operation: ScatterAccepted, tensors: Tensors, host: None) -> None:
        bound.scatter_accepted(AcceptedArrays(tensors["accepted"], tensors["sampled"], tensors["mapping"]))


class FillCall(DeviceCall[FillAccepted]):
    def run(self, bound: Bound, operation: FillAccepted, tensors: Tensors, host: None) -> None:
        bound.fill_accepted(AcceptedArrays(tensors["accepted"], operation.sampled, tensors["mapping"]))

"""How aligned indices are called."""

from __future__ import annotations

from harness.case import AlignedIndices
from harness.case.operations.results import ALIGNED_INDICES
from harness.check.operations.call import DeviceCall, Results, Tensors, as_numbers
from harness.kernels.targets.arguments import AlignedIndicesArrays
from harness.kernels.targets.base import Bound
from harness.memory import stale_numbers
from harness.oracles.before import Before


class AlignedIndicesCall(DeviceCall[AlignedIndices]):
    def prepare(self, bound: Bound, operation: AlignedIndices, before: Before) -> None:
        """Fill the buffer with numbers that no block has, so that each one written is visible."""
        import torch

        out = bound.aligned_out
        blocks = before.layout.num_blocks
        noise = stale_numbers(before.payload_seed, before.index, out.numel(), blocks, 2 * blocks)
        out.copy_(torch.from_numpy(noise).reshape(out.shape))

    def run(self, bound: Bound, operation: AlignedIndices, tensors: Tensors, host: None) -> None:
        rows = len(operation.rows)
        bound.aligned_indices(AlignedIndicesArrays(rows, tensors["length"][:rows], tensors["mapping"]))

    def results(self, bound: Bound, operation: AlignedIndices, host: None) -> Results:
        return {ALIGNED_INDICES: as_numbers(bound.aligned_out)}

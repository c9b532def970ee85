"""How aligned indices are asked for."""

from __future__ import annotations

from typing import Any

from harness.case import Case
from harness.case.operations.results import ALIGNED_INDICES
from harness.check.operations.call import Before, Call, Results, Tensors, as_numbers
from harness.kernels.targets.arguments import AlignedIndicesArrays
from harness.kernels.targets.base import Bound
from harness.memory import stale_numbers


class AlignedIndicesCall(Call):
    def prepare(self, bound: Bound, case: Case, index: int, before: Before) -> Any:
        """The buffer holds numbers that no block has, so that each one written shows."""
        import torch

        out = bound.aligned_out
        blocks = case.layout.num_blocks
        noise = stale_numbers(case.contents.payload_seed, index, out.numel(), blocks, 2 * blocks)
        out.copy_(torch.from_numpy(noise).reshape(out.shape))

    def run(self, bound: Bound, case: Case, index: int, tensors: Tensors, host: Any) -> None:
        rows = len(case.program[index].rows)
        bound.aligned_indices(AlignedIndicesArrays(rows, tensors["length"][:rows], tensors["mapping"]))

    def results(self, bound: Bound, case: Case, index: int, host: Any) -> Results:
        return {ALIGNED_INDICES: as_numbers(bound.aligned_out)}

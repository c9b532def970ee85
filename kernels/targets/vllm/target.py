"""A vLLM target drives the fused kernels of one version of vLLM through that version's own entry points.

The context is created, bound to the tensors, and called as the model runner does it; grids, tile counts and compile-
time constants stay production's.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.case import Layout
from harness.kernels.executors.base import Executor
from harness.kernels.mutations.mutation import Mutation
from harness.kernels.targets.base import Allocate, Bound, LayoutTensors, Target, TargetLacks
from harness.kernels.targets.vllm.bound import BATCH_ORDER, VllmBound
from harness.kernels.targets.vllm.limits import declining, limit
from harness.kernels.targets.vllm.runner import runner
from harness.kernels.targets.vllm.sources import SourceTree
from harness.kernels.targets.vllm.version import Version
from harness.text import counted

_METADATA = ("state_", "block_table_ptrs", "aligned_index_block_table_ptrs", "table ", "copy ")
"""Prefixes of the names of buffers that only the host writes: addresses, strides and sizes, tables."""


class VllmTarget(Target):
    """One version of vLLM. `rows_by` says whether its table rows are request slots or batch rows."""

    def __init__(self, name: str, tree: SourceTree, executor: Executor, mutations: Sequence[Mutation] = ()) -> None:
        self.name = name
        self.version = Version(name, tree, executor, mutations)
        self.mapping_bits = self.version.features.mapping_bits
        self.rows_by = self.version.features.rows_by

    def is_metadata(self, name: str) -> bool:
        return name.removeprefix(BATCH_ORDER).startswith(_METADATA)

    def bind(self, layout: Layout, tensors: LayoutTensors, allocate: Allocate) -> Bound:
        """Create the version's context over these tensors. Raises TargetLacks, or what the version raises."""
        return self._bind(layout, tensors, allocate, at_once=True)

    def bind_later(self, layout: Layout, tensors: LayoutTensors, allocate: Allocate) -> Bound:
        """The V1 entry points bind a context that is not yet bound."""
        return self._bind(layout, tensors, allocate, at_once=False)

    def _bind(self, layout: Layout, tensors: LayoutTensors, allocate: Allocate, *, at_once: bool) -> VllmBound:
        version = self.version
        objects = runner(layout, tensors, version.interface)
        version.use(layout.conv_layout)
        why_not = limit(version.features, layout, objects)
        with declining(why_not):
            if why_not is not None and (left_out := version.groups_left_out(objects)):
                raise TargetLacks(f"{why_not}; get_mamba_groups leaves out {counted(len(left_out), 'group')} of them")
            bound = VllmBound(version, layout, objects, tensors.tables, allocate, why_not)
            if at_once:
                bound.initialize()
        return bound

    def owns(self, file: str) -> bool:
        return self.version.owns(file)

"""A version is one vLLM loaded into this process: its files under test, and what they create for a runner.

Differences between versions are in features.py.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from harness.case import ConvLayout, Layout
from harness.kernels.executors.base import Executor
from harness.kernels.mutations.mutation import Mutation, mutate
from harness.kernels.targets.base import Allocate
from harness.kernels.targets.vllm.allocation import Allocations, attribute_names, on_device
from harness.kernels.targets.vllm.features import BUFFERS, CONTEXT, Features, features
from harness.kernels.targets.vllm.replacements import CONV_LAYOUT_VARIABLE
from harness.kernels.targets.vllm.runner import Kinds, Runner
from harness.kernels.targets.vllm.sources import HYBRID, LAYERS, WORKER, SourceTree
from harness.kernels.targets.vllm.surroundings import surround
from harness.kernels.targets.vllm.under_test import files_under_test


class Version:
    """The version in `tree` as the target `name`, with planted faults.

    `released`: not a checkout, which may change. `worker` and `hybrid` are its files of V1 and V2 host code and
    `interface` that of its configurations; `surroundings` says what they were loaded on.
    """

    def __init__(self, name: str, tree: SourceTree, executor: Executor, mutations: Sequence[Mutation] = ()) -> None:
        self.name = name
        self.released = tree.stable
        self.features: Features = features(tree)
        self.device = executor.device
        self._start = executor.transfers.start

        files = files_under_test(tree, hybrid=self.features.scatter)
        original = {file: tree.text(file) for file in files}
        sources = mutate("vllm", original, mutations)
        loaded = surround(tree, files, sources, executor)
        self.surroundings = loaded.name
        self.interface = loaded.interface
        self._layers, self.worker = loaded.modules[LAYERS], loaded.modules[WORKER]
        self.hybrid = loaded.modules.get(HYBRID)
        self._files = {module.__file__ for module in loaded.modules.values()}
        self._package = str(tree.directory / "vllm") + os.sep if loaded.name == "package" else None
        self._environment = loaded.environment
        self._conv_layout: ConvLayout | None = None
        self._copy_functions = {
            "conv": self._layers.get_conv_copy_spec,
            "temporal": self._layers.get_temporal_copy_spec,
        }
        self._names: Sequence[str] | None = None
        self._buffer_names: Sequence[str] | None = None

    def owns(self, file: str) -> bool:
        """Whether code in `file` is code under test."""
        return file in self._files or (self._package is not None and file.startswith(self._package))

    def use(self, conv_layout: ConvLayout) -> None:
        """Set SD or DS for the next call: one setting for the whole process, which vLLM caches."""
        if conv_layout == self._conv_layout:
            return
        setattr(self._environment, CONV_LAYOUT_VARIABLE, conv_layout)
        _forget_answers(self._layers)
        self._conv_layout = conv_layout

    def create(self, layout: Layout, objects: Runner, allocate: Allocate, prefix: str = "") -> Any:
        """An unbound context; its buffers come from `allocate`, named after its attributes."""
        if self._names is None:
            rehearsal = self.allocations(on_device(self.device))
            self._names = attribute_names({"": self._create(layout, objects, rehearsal)}, rehearsal.served)
        return self._create(layout, objects, self.allocations(allocate, self._names, prefix))

    def create_buffers(self, layout: Layout, objects: Runner, allocate: Allocate) -> Any:
        """Everything that the V1 runner creates: buffers for lists of copies, and an unbound context."""
        if self._buffer_names is None:
            rehearsal = self.allocations(on_device(self.device))
            made = self._create_buffers(layout, objects, rehearsal)
            owners = {"copy ": made.preprocess, "": made.postprocess_align}
            self._buffer_names = attribute_names(owners, rehearsal.served)
        return self._create_buffers(layout, objects, self.allocations(allocate, self._buffer_names))

    def allocations(self, allocate: Allocate, names: Sequence[str] = (), prefix: str = "") -> Allocations:
        """Serves what production allocates."""
        return Allocations(self.device, allocate, self._start, names, prefix)

    def groups_left_out(self, objects: Runner) -> list[int]:
        """The groups with Mamba layers that this version does not take for such, since their layers differ. Raises what
        it raises."""
        if self.features.states_per_layer:
            return []
        taken, _ = self.worker.get_mamba_groups(objects.config)
        return [number for number in objects.mamba_groups if number not in taken]

    def functions(self, objects: Runner) -> Mapping[Kinds, Any] | tuple[Any, ...]:
        """The copy functions of each kind of layer, validated; one tuple for all layers in releases without kinds."""
        by_layer = {kinds: tuple(self._copy_functions[kind] for kind in kinds) for kinds in objects.layer_kinds}
        if self.features.validates_functions:
            groups = self.worker.get_mamba_groups(objects.config)
            self.worker.validate_mamba_state_copy_funcs(groups, by_layer)
        return by_layer if self.features.states_per_layer else by_layer[objects.layer_kinds[0]]

    def _create(self, layout: Layout, objects: Runner, allocations: Allocations) -> Any:
        functions = self.functions(objects)
        which: Mapping[str, Any] = (
            {"copy_funcs": functions} if self.features.states_per_layer else {"num_state_types": len(functions)}
        )
        with allocations:
            return getattr(self.worker, CONTEXT).create(
                max_num_reqs=layout.table_rows,
                kv_cache_config=objects.config,
                device=self.device,
                make_buffer=allocations.make_buffer,
                **which,
            )

    def _create_buffers(self, layout: Layout, objects: Runner, allocations: Allocations) -> Any:
        with allocations:
            return getattr(self.worker, BUFFERS).create(
                max_num_reqs=layout.table_rows,
                kv_cache_config=objects.config,
                copy_funcs=self.functions(objects),
                make_buffer=allocations.make_buffer,
                device=self.device,
                with_postprocess_align=True,
            )


def _forget_answers(module: ModuleType) -> None:
    """Clear the caches of all cached functions of a module under test."""
    for value in vars(module).values():
        if isinstance(value, _Cached) and value.__module__ == module.__name__:
            value.cache_clear()


_Cached = type(functools.lru_cache(_forget_answers))

"""The objects that a model runner has, made for a case: cache groups, layers, block tables, the kernels' context."""

from __future__ import annotations

import inspect
import re
from types import SimpleNamespace
from typing import Any

from harness.export.kernel_script.case import Case, Operation
from harness.export.kernel_script.host_buffer import HostBuffer
from harness.export.kernel_script.loading import BATCH, CannotRun, Vllm
from harness.export.kernel_script.memory import Memory


def accepted(function: Any, offered: dict[str, Any]) -> dict[str, Any]:
    """Those arguments that a function or class has a parameter for: they differ from release to release."""
    parameters = inspect.signature(function).parameters
    return {name: value for name, value in offered.items() if name in parameters}


class Setup:
    """All of them, for one operation of a case. `groups` are the numbers of the groups with Mamba layers."""

    def __init__(self, vllm: Vllm, case: Case, operation: Operation, memory: Memory) -> None:
        import torch

        self.vllm, self.case, self.device = vllm, case, memory.raw.device
        self.tensors = [
            [[memory.tensor(state) for state in (*layer.states, *layer.extra)] for layer in group]
            for group in case.groups
        ]
        self.tables = [torch.tensor(table, dtype=torch.int32, device=self.device) for table in case.tables]
        self.config, self.forward_context, self.groups = self._config()
        self.copy_functions = self._copy_functions()
        self.renew()
        self.arrays = {
            name: torch.tensor(
                numbers, dtype=self._mapping_type() if name == "mapping" else torch.int32, device=self.device
            )
            for name, numbers in operation.arrays.items()
        }

    def bind(self, tables: list[Any]) -> None:
        """Let the context learn addresses, strides and sizes, as in the first step."""
        self.bound = list(tables)  # a context keeps their addresses alone
        initialize = self.context.initialize_from_forward_context
        more = {"aligned_index_block_tables": self.bound} if self._by_slot() else {}
        initialize(self.config, self.forward_context, self.copy_functions, self.bound, **more)

    def _config(self) -> tuple[Any, dict[str, Any], list[int]]:
        import torch

        case, interface = self.case, self.vllm.interface
        groups, layers = [], {}
        for g, group in enumerate(case.groups):
            specs = {}
            for n, layer in enumerate(group):
                name, tensors = f"group {g} layer {n}", self.tensors[g][n]
                offered = {
                    "block_size": case.block_size,
                    "shapes": tuple(tuple(tensor.shape[1:]) for tensor in tensors),
                    "dtypes": tuple(tensor.dtype for tensor in tensors),
                    "mamba_type": tuple(state.kind for state in layer.states),
                    "mamba_cache_mode": "align",
                    "num_speculative_blocks": case.num_spec,
                }
                specs[name] = interface.MambaSpec(**accepted(interface.MambaSpec, offered))
                layers[name] = SimpleNamespace(kv_cache=list(tensors))
            first = next(iter(specs.values()))
            if any(spec != first for spec in specs.values()):
                first = interface.UniformTypeKVCacheSpecs(block_size=case.block_size, kv_cache_specs=specs)
            groups.append(interface.KVCacheGroupSpec(list(specs), first))
        attention = {"block_size": case.block_size, "num_kv_heads": 1, "head_size": 8, "dtype": torch.bfloat16}
        kind = interface.FullAttentionSpec
        place = 1 if len(groups) > 1 else 0  # models have attention layers among the others
        groups.insert(place, interface.KVCacheGroupSpec(["attention"], kind(**accepted(kind, attention))))
        numbers = [number for number in range(len(groups)) if number != place]
        kind, offered = interface.KVCacheConfig, {"num_blocks": case.num_blocks, "kv_cache_tensors": []}
        return kind(**accepted(kind, {**offered, "kv_cache_groups": groups})), layers, numbers

    def _copy_functions(self) -> Any:
        worker = self.vllm.worker
        functions = {"conv": worker.get_conv_copy_spec, "temporal": worker.get_temporal_copy_spec}
        kinds = [tuple(state.kind for state in layer.states) for group in self.case.groups for layer in group]
        by_layer = {each: tuple(functions[kind] for kind in each) for each in kinds}
        if not self._states_per_layer():
            return by_layer[kinds[0]]
        if hasattr(worker, "validate_mamba_state_copy_funcs"):  # both runners call it before their first step
            worker.validate_mamba_state_copy_funcs(worker.get_mamba_groups(self.config), by_layer)
        return by_layer

    def renew(self) -> None:
        """Make the runner's buffers and its context, which is not bound to anything yet."""
        self.buffers = self.vllm.worker.MambaBuffers.create(
            max_num_reqs=len(self.case.tables[0]),
            kv_cache_config=self.config,
            copy_funcs=self.copy_functions,
            make_buffer=lambda *size, dtype, **_: HostBuffer(size, dtype, self.device),
            device=self.device,
            with_postprocess_align=True,
        )
        self.context = self.buffers.postprocess_align

    def _parameters(self, method: str) -> Any:
        return inspect.signature(getattr(self.vllm.worker.MambaSpecDecodeGPUContext, method)).parameters

    def _states_per_layer(self) -> bool:
        return "copy_funcs" in self._parameters("create")

    def _by_slot(self) -> bool:
        """Whether the V2 runner's kernels read the table rows of request slots; before 0.32.0 it gathers batch rows."""
        return "aligned_index_block_tables" in self._parameters("initialize_from_forward_context")

    def in_order(self, operation: Operation) -> list[Any]:
        """The tables as the kernels of a runner get them."""
        if operation.runner == "V1" or self._by_slot():
            return self.tables
        rows = self.arrays["mapping"].clamp(min=0).long()
        gathered = [table.clone() for table in self.tables]
        for copy, table in zip(gathered, self.tables, strict=True):
            copy[: len(rows)] = table[rows]
        return gathered

    def _mapping_type(self) -> Any:
        """The integer type of the V2 runner's index mapping, which its dummy batch has as well."""
        import torch

        found = re.search(r"\bidx_mapping = torch\.\w+\([^)]*dtype=torch\.(int\d+)", self.vllm.source(BATCH))
        if found is None:
            raise CannotRun(f"no type of idx_mapping in {BATCH}")
        return getattr(torch, found[1])

    def function(self, owner: Any, name: str) -> Any:
        """An entry point. Raises CannotRun if this vLLM has none of that name."""
        found = getattr(owner, name, None)
        if found is None:
            raise CannotRun(f"this vLLM has no {name}")
        return found

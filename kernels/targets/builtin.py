"""The builtin target: our own fused kernels (kernels/fused), loaded in a way that allows planted
faults."""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from harness.case import ConvState
from harness.kernels.executors.base import Executor
from harness.kernels.host_buffer import HostBuffer
from harness.kernels.mutations.mutation import Mutation, mutate
from harness.kernels.targets.arguments import (
    AcceptedArrays,
    AdvanceArrays,
    AlignedIndicesArrays,
    HostBatch,
    StagedView,
    StateMove,
)
from harness.kernels.targets.base import (
    Allocate,
    Bound,
    LayoutTensors,
    PostprocessArrays,
    PrecopyArrays,
    Target,
)
from harness.kernels.targets.loading import is_loaded_text, load_module

if TYPE_CHECKING:
    import torch

    from harness.case import Layout, MovePath
    from harness.kernels.fused.context import BoundState, FusedContext
    from harness.kernels.fused.host import HostSide
    from harness.kernels.fused.lookup import IndexLookup

_PACKAGE = "harness.kernels.fused"
_FOLDER = Path(__file__).parent.parent / "fused"
_MODULES = (
    "record",
    "copy",
    "moves",
    "postprocess",
    "precopy",
    "advance",
    "accepted",
    "context",
    "indices",
    "lookup",
    "batch_copy",
    "columns",
    "host",
)
"""The modules of the package, each after those it imports: all files in its folder."""
_METADATA = ("records", "tiles", "table addresses", "batch-order table ", "copy ")
"""Prefixes of the names of buffers that only the host writes."""

_PROGRAMS = (1, 2, 3, 5, 8)
"""Numbers of programs that share the copies of a step where there is no GPU to fill. The number of states selects one,
so that it stays while a case is shrunk in any other way."""
_SMALL = {"lanes": 128, "decided": 8}
"""Tiles, and requests decided for at a time, so small that the states and batches of cases have several of them."""


def load_kernels(executor: Executor, mutations: Sequence[Mutation]) -> SimpleNamespace:
    """Load our fused kernels, mutated, and return the names of all their modules. Raises MutationMismatch."""
    unlisted = {path.stem for path in _FOLDER.glob("*.py")}.difference(_MODULES)
    if unlisted:  # it would be loaded without the executor, and launch nothing
        raise RuntimeError(
            f"kernels/fused has {', '.join(sorted(unlisted))}, which _MODULES in {__file__} does not list"
        )
    paths = {f"fused/{module}.py": _FOLDER / f"{module}.py" for module in _MODULES}
    sources = {file: path.read_text(encoding="utf-8") for file, path in paths.items()}
    mutated = mutate("builtin", sources, mutations)
    names: dict[str, Any] = {}
    with _replacing(f"{_PACKAGE}.{module}" for module in _MODULES):
        for file, path in paths.items():
            unchanged = path if mutated[file] == sources[file] else None
            names |= vars(load_module(f"{_PACKAGE}.{path.stem}", mutated[file], executor, path=unchanged))
    return SimpleNamespace(**{name: value for name, value in names.items() if not name.startswith("__")})


class BuiltinTarget(Target):
    """Our own fused kernels, with planted mutations if any are given. Raises MutationMismatch."""

    mapping_bits = 32

    def __init__(self, executor: Executor, mutations: Sequence[Mutation] = ()) -> None:
        self.name = "+".join(["builtin", *(mutation.name for mutation in mutations)])
        self.executor = executor
        self.code = load_kernels(executor, mutations)
        self._programs: int | None = None

    def with_temporal_tiles(self, tiles: int) -> BuiltinTarget:
        """Our programs share all copies of a step, including temporal ones."""
        other = copy.copy(self)
        other._programs = tiles
        return other

    def is_metadata(self, name: str) -> bool:
        return name.startswith(_METADATA)

    def owns(self, file: str) -> bool:
        return is_loaded_text(file) or Path(file).is_relative_to(_FOLDER)

    def bind(self, layout: Layout, tensors: LayoutTensors, allocate: Allocate) -> BoundBuiltin:
        return self._bind(layout, tensors, allocate, at_once=True)

    def bind_later(self, layout: Layout, tensors: LayoutTensors, allocate: Allocate) -> BoundBuiltin:
        return self._bind(layout, tensors, allocate, at_once=False)

    def _bind(self, layout: Layout, tensors: LayoutTensors, allocate: Allocate, *, at_once: bool) -> BoundBuiltin:
        states = [
            [
                self.code.BoundState(tensor, "conv" if isinstance(state, ConvState) else "temporal")
                for layer, layer_tensors in zip(group.layers, group_tensors, strict=True)
                for state, tensor in zip(layer.states, layer_tensors, strict=False)
            ]
            for group, group_tensors in zip(layout.groups, tensors.states, strict=True)
        ]
        context = self.code.FusedContext(
            states,
            tensors.tables,
            conv_layout=layout.conv_layout,
            block_size=layout.block_size,
            allocate=allocate,
            bind_now=at_once,
            **self._shape(layout),
        )
        return BoundBuiltin(self, layout, states, tensors.tables, context, allocate)

    def _shape(self, layout: Layout) -> dict[str, int | None]:
        """How a context divides its work. A case runs in the same way each time, independent of earlier cases."""
        if self.executor.device.type == "cuda":
            return {"programs": self._programs}
        chosen = _PROGRAMS[layout.num_states % len(_PROGRAMS)]
        return {"programs": self._programs or chosen, **_SMALL}


class BoundBuiltin(Bound):
    """A fused context behind the interface of targets, with the parts that a model runner adds to it."""

    def __init__(
        self,
        target: BuiltinTarget,
        layout: Layout,
        states: Sequence[Sequence[BoundState]],
        tables: Sequence[torch.Tensor],
        context: FusedContext,
        allocate: Allocate,
    ) -> None:
        self._target = target
        self._layout = layout
        self._states = states
        self._tables = tables
        self._context = context
        self._allocate = allocate

    @property
    def accepted_out(self) -> torch.Tensor:
        return self._context.accepted_out

    def postprocess(self, arrays: PostprocessArrays) -> None:
        if arrays.runner == "V1":
            assert arrays.scheduled is not None
            assert arrays.computed is not None
            assert arrays.draft is not None
            self._context.postprocess(
                arrays.num_requests,
                arrays.accepted,
                arrays.state_column,
                arrays.scheduled,
                arrays.computed,
                arrays.draft,
            )
        else:
            assert arrays.new_computed is not None
            assert arrays.mapping is not None
            self._context.postprocess_in_place(
                arrays.num_requests,
                arrays.accepted,
                arrays.state_column,
                arrays.new_computed,
                arrays.mapping,
            )

    def precopy(self, arrays: PrecopyArrays) -> None:
        self._context.precopy(
            arrays.num_requests,
            arrays.source_column,
            arrays.destination_column,
            arrays.bias,
            arrays.mapping,
        )

    def advance(self, arrays: AdvanceArrays) -> None:
        self._context.advance(
            arrays.num_requests,
            arrays.mapping,
            arrays.query_start,
            arrays.computed,
            arrays.state_column,
            arrays.accepted,
            arrays.source_column,
            arrays.bias,
        )

    # Created at first use: most cases need neither.

    @functools.cached_property
    def _batch_tables(self) -> Sequence[torch.Tensor]:
        """Block tables in batch order, into which the runner gathers rows before each step."""
        tables = [
            self._allocate(f"batch-order table {group}", tuple(table.shape), table.dtype)
            for group, table in enumerate(self._tables)
        ]
        for batch_order, table in zip(tables, self._tables, strict=True):
            batch_order.copy_(table)  # rows past the batch are stale, but in range
        return tables

    @functools.cached_property
    def _lookup(self) -> IndexLookup:
        return self._target.code.IndexLookup(  # type: ignore[no-any-return]
            self._batch_tables,
            columns=1 + self._layout.num_spec,
            block_size=self._layout.block_size,
            allocate=self._allocate,
        )

    @functools.cached_property
    def _host(self) -> HostSide:
        start = self._target.executor.transfers.start

        def make_buffer(name: str, entries: int, dtype: torch.dtype) -> HostBuffer:
            return HostBuffer(name, self._allocate(name, (entries,), dtype), start)

        return self._target.code.HostSide(  # type: ignore[no-any-return]
            self._context,
            self._states,
            conv_layout=self._layout.conv_layout,
            block_size=self._layout.block_size,
            rows=self._layout.table_rows,
            make_buffer=make_buffer,
        )

    @property
    def aligned_out(self) -> torch.Tensor:
        return self._lookup.indices

    def aligned_indices(self, arrays: AlignedIndicesArrays) -> None:
        for batch_order, table in zip(self._batch_tables, self._tables, strict=True):
            batch_order[: arrays.num_requests] = table[arrays.mapping.long()]
        self._lookup.look_up(arrays.num_requests, arrays.length)

    def scatter_accepted(self, arrays: AcceptedArrays) -> None:
        assert not isinstance(arrays.sampled, int)
        self._context.scatter_accepted(arrays.accepted, arrays.sampled, arrays.mapping)

    def fill_accepted(self, arrays: AcceptedArrays) -> None:
        assert isinstance(arrays.sampled, int)
        self._context.fill_accepted(arrays.accepted, arrays.sampled, arrays.mapping)

    @property
    def staged(self) -> Mapping[str, StagedView]:
        return {name: StagedView(buffer.np, buffer.gpu) for name, buffer in self._host.staged.items()}

    def stage(self, batch: HostBatch) -> None:
        self._host.stage(batch.requests, batch.num_requests, batch.columns)

    def postprocess_entry(self, batch: HostBatch, accepted: torch.Tensor) -> None:
        self._host.postprocess(batch.num_requests, accepted, batch.accepted)

    def scalar_copy(self, batch: HostBatch, moves: Sequence[StateMove]) -> None:
        self._host.copy([(move.request, move.source, move.destination, move.bias) for move in moves])

    def preprocess(self, batch: HostBatch, path: MovePath) -> None:
        self._host.preprocess(
            batch.requests,
            batch.columns,
            batch.accepted,
            finished=batch.finished,
            preempted=batch.preempted,
            resumed=batch.resumed,
            fused=path != "scalar",
        )

    @functools.cached_property
    def _all_mode_buffer(self) -> HostBuffer:
        import torch

        private = self._allocate("previous_column", (self._layout.table_rows,), torch.int32)
        return HostBuffer("previous_column", private, self._target.executor.transfers.start)

    @property
    def previous_column(self) -> StagedView:
        return StagedView(self._all_mode_buffer.np, self._all_mode_buffer.gpu)

    def all_mode(self, batch: HostBatch) -> None:
        requests = batch.requests[: batch.num_requests]
        names = [request.name for request in requests]
        code = self._target.code
        code.forget(batch.columns, (*batch.finished, *batch.preempted, *batch.resumed))
        code.stage_columns(batch.columns, names, self._all_mode_buffer)
        ends = {request.name: (request.computed, request.scheduled) for request in requests}
        code.remember_decodes(batch.columns, ends, self._layout.num_spec, self._layout.block_size)


@contextmanager
def _replacing(names: Iterator[str]) -> Iterator[None]:
    """Restore `sys.modules` afterwards, so that other imports never find a mutated module."""
    before = {name: sys.modules.get(name) for name in names}
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module

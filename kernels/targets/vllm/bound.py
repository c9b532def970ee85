"""A bound vLLM target is a context of one version, created for one layout, with the calls that production makes."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from harness.case import Layout, MovePath
from harness.kernels.targets.arguments import (
    AcceptedArrays,
    AdvanceArrays,
    AlignedIndicesArrays,
    HostBatch,
    StagedView,
    StateMove,
)
from harness.kernels.targets.base import Allocate, Bound, PostprocessArrays, PrecopyArrays, TargetLacks
from harness.kernels.targets.vllm.all_mode import AllModeHost
from harness.kernels.targets.vllm.claimed import claim_cuda
from harness.kernels.targets.vllm.host_path import HostPath
from harness.kernels.targets.vllm.limits import context_limit, declining
from harness.kernels.targets.vllm.model_state import ModelState
from harness.kernels.targets.vllm.runner import Runner
from harness.kernels.targets.vllm.version import Version

BATCH_ORDER = "batch-order "
"""Prefixes of the names of buffers that belong to tables in batch order."""


class VllmBound(Bound):
    """A context, and a second one over gathered tables where V2 table rows are batch rows.

    V1 and V2 runners never share a process. The V2 runner gathers the table rows of each batch into separate tables
    before the step, if its kernels read them by batch row; here this happens before each call. Contexts are bound to
    tables by `initialize`, unless a production entry point is to do that. `limit` is why no model on this version has
    such memory; None if one can.
    """

    def __init__(
        self,
        version: Version,
        layout: Layout,
        objects: Runner,
        tables: Sequence[torch.Tensor],
        allocate: Allocate,
        limit: str | None = None,
    ) -> None:
        self._version = version
        self._layout = layout
        self._objects = objects
        self._tables = tables
        self._allocate = allocate
        self._limit = limit
        self._lacks_context: TargetLacks | None = None
        features = version.features
        self._buffers = version.create_buffers(layout, objects, allocate) if features.host_path else None
        self._context = (
            version.create(layout, objects, allocate) if not self._buffers else self._buffers.postprocess_align
        )
        self._batch_context = self._context
        self._gathered: Sequence[torch.Tensor] = ()
        if features.v2 and features.rows_by == "batch":
            self._gathered = self._new_tables()
            self._batch_context = version.create(layout, objects, allocate, BATCH_ORDER)
        elif features.aligned_indices:
            self._gathered = self._new_tables()

    def _new_tables(self) -> Sequence[torch.Tensor]:
        tables = [
            self._allocate(f"{BATCH_ORDER}table {group}", tuple(table.shape), torch.int32)
            for group, table in enumerate(self._tables)
        ]
        for batch_order, table in zip(tables, self._tables, strict=True):
            batch_order.copy_(table)  # rows past the batch are stale, but in range
        return tables

    def initialize(self) -> None:
        """Bind the contexts to their tables. Raises what the version raises."""
        try:
            with declining(context_limit(self._version.features, self._objects)):
                self._initialize_contexts()
        except TargetLacks as error:  # the scalar path needs none
            self._lacks_context = error

    def _initialize_contexts(self) -> None:
        if self._batch_context is self._context:
            self._initialize(self._context, self._tables, self._gathered)
        else:
            self._initialize(self._context, self._tables, ())
            self._initialize(self._batch_context, self._gathered, ())

    def _initialize(self, context: Any, tables: Sequence[torch.Tensor], batch_order: Sequence[torch.Tensor]) -> None:
        """Initialise twice: the second time must change nothing."""
        objects, functions = self._objects, self._version.functions(self._objects)
        more = (list(batch_order),) if batch_order else ()
        for _ in range(2):
            context.initialize_from_forward_context(
                objects.config, objects.forward_context, functions, list(tables), *more
            )

    @property
    def accepted_out(self) -> torch.Tensor:
        out: torch.Tensor = self._context.num_accepted_tokens_out
        return out

    def _need_context(self) -> None:
        """Raise TargetLacks if no runner makes a context for such memory."""
        if self._lacks_context is not None:
            raise self._lacks_context
        self._version.use(self._layout.conv_layout)

    @functools.cached_property
    def _v2_starts(self) -> bool:
        """Asked once, before the first call of the V2 runner. Raises what its model state raises for such memory."""
        self._model_state.start(self._version.functions(self._objects))
        return True

    def postprocess(self, arrays: PostprocessArrays) -> None:
        features = self._version.features
        self._need_context()
        if arrays.runner == "V1":
            self._needs(features.v1_postprocess, "postprocess for V1", "0.22.0")
            self._context.run_fused_postprocess(
                num_reqs=arrays.num_requests,
                num_accepted_tokens_gpu=arrays.accepted,
                mamba_state_idx_gpu=arrays.state_column,
                num_scheduled_tokens_gpu=arrays.scheduled,
                num_computed_tokens_gpu=arrays.computed,
                num_draft_tokens_gpu=arrays.draft,
            )
            return
        self._needs(features.v2_postprocess, "V2 postprocess", "0.25.0")
        assert self._v2_starts
        self._batch_context.run_fused_postprocess_align(
            num_reqs=arrays.num_requests,
            num_accepted_tokens_gpu=arrays.accepted,
            state_idx_gpu=arrays.state_column,
            new_num_computed_tokens_gpu=arrays.new_computed,
            idx_mapping=self._in_batch_order(arrays.mapping),
        )

    def precopy(self, arrays: PrecopyArrays) -> None:
        features = self._version.features
        if arrays.runner == "V1":
            self._needs(features.v1_precopy, "fused precopy for V1", "0.27.0")
        self._needs(features.v2_precopy, "fused precopy", "0.25.0")
        self._need_context()
        assert arrays.mapping is None or self._v2_starts
        context = self._context if arrays.mapping is None else self._batch_context
        context.run_fused_precopy(
            num_reqs=arrays.num_requests,
            state_idx_gpu=arrays.destination_column,
            src_col_gpu=arrays.source_column,
            token_bias_gpu=arrays.bias,
            idx_mapping=None if arrays.mapping is None else self._in_batch_order(arrays.mapping),
        )

    @functools.cached_property
    def _model_state(self) -> ModelState:
        """The V2 runner's model state; created when first needed, since most cases need none."""
        assert self._version.hybrid is not None
        return ModelState(self._version.hybrid, self._layout, self._objects, self._version.device)

    def advance(self, arrays: AdvanceArrays) -> None:
        self._needs(self._version.features.advance, "advance", "0.25.0")
        self._need_context()
        assert self._v2_starts
        self._model_state.advance(arrays)

    @property
    def aligned_out(self) -> torch.Tensor:
        self._needs(self._version.features.aligned_indices, "aligned indices", "0.29.0")
        out: torch.Tensor = self._batch_context.aligned_state_indices
        return out

    def aligned_indices(self, arrays: AlignedIndicesArrays) -> None:
        self._need_context()
        self._gather(arrays.mapping)
        self._batch_context.compute_aligned_state_indices(claim_cuda(arrays.length), arrays.num_requests)

    def scatter_accepted(self, arrays: AcceptedArrays) -> None:
        self._needs(self._version.features.scatter, "kernel that scatters accepted counts", "0.23.0")
        self._model_state.set_accepted(arrays)

    def fill_accepted(self, arrays: AcceptedArrays) -> None:
        self._needs(self._version.features.fill, "kernel that fills accepted counts", "0.28.0")
        self._model_state.set_accepted(arrays)

    @functools.cached_property
    def _host(self) -> HostPath:
        """The V1 runner's host path; created when first needed, since most cases need none."""
        self._needs(self._version.features.host_path, "host path as the harness knows it", "0.22.0")
        functions = self._version.functions(self._objects)
        return HostPath(self._version.worker, self._objects, self._tables, self._buffers, functions)

    @property
    def staged(self) -> Mapping[str, StagedView]:
        return self._host.staged

    def stage(self, batch: HostBatch) -> None:
        self._needs_host("stage_postprocess_inputs_to_gpu")
        self._host.stage(batch)

    def postprocess_entry(self, batch: HostBatch, accepted: torch.Tensor) -> None:
        self._needs_host("postprocess_mamba_align_gpu")
        self._need_context()
        with declining(self._limit or context_limit(self._version.features, self._objects)):
            self._host.postprocess(batch, accepted)

    def scalar_copy(self, batch: HostBatch, moves: Sequence[StateMove]) -> None:
        self._needs_host("collect_mamba_copy_meta", "do_mamba_copy_block")
        self._version.use(self._layout.conv_layout)
        self._host.copy(moves)

    @property
    def has_fused_precopy(self) -> bool:
        return self._version.features.v1_precopy

    @property
    def lists_after_step(self) -> bool:
        return self._version.features.lists_after_step

    @property
    def lists_with_bias(self) -> bool:
        return not self.has_fused_precopy  # which moves states wherever there are drafts

    def preprocess(self, batch: HostBatch, path: MovePath) -> None:
        self._needs_host("preprocess_mamba", "collect_mamba_copy_meta", "do_mamba_copy_block")
        has_choice = self.has_fused_precopy
        if path == "fused":
            self._needs(has_choice, "fused precopy for V1", "0.27.0")
        fused = has_choice and path != "scalar"
        if fused:
            self._need_context()
        self._version.use(self._layout.conv_layout)
        self._host.preprocess(batch, context=fused if has_choice else None)

    @functools.cached_property
    def _all_mode(self) -> AllModeHost:
        if not self._version.features.all_mode:
            raise TargetLacks(f"{self._version.name} has no bookkeeping of `all` mode: it went with vllm 0.32.0")
        rows = self._layout.table_rows
        buffer = self._version.allocations(self._allocate, ("previous_column",)).make_buffer(rows, dtype=torch.int32)
        return AllModeHost(self._host, self._layout, buffer)

    @property
    def previous_column(self) -> StagedView:
        buffer = self._all_mode.buffer
        return StagedView(buffer.np, buffer.gpu)

    def all_mode(self, batch: HostBatch) -> None:
        self._all_mode.step(batch)

    def _needs(self, there: bool, what: str, since: str) -> None:
        if not there:
            known = f"it came with vllm {since}" if self._version.released else "no function of the form that is called"
            raise TargetLacks(f"{self._version.name} has no {what}: {known}")

    def _needs_host(self, *functions: str) -> None:
        """Functions of the host path have to be there, in the form that is called."""
        for name in functions:
            there = name in self._version.features.host_functions
            self._needs(there, f"{name} as the harness knows it", "0.22.0")

    def _in_batch_order(self, mapping: torch.Tensor | None) -> torch.Tensor:
        """The mapping, after gathering the rows that it names if this version wants them by batch row."""
        if mapping is None:
            raise ValueError("a V2 call needs an index mapping")
        if self._version.features.rows_by == "batch":
            self._gather(mapping)
        return mapping

    def _gather(self, mapping: torch.Tensor) -> None:
        """Copy the table rows of a batch into batch order."""
        rows = mapping.clamp(min=0)  # a skipped row gets some row: the kernel must not look at it
        for batch_order, table in zip(self._gathered, self._tables, strict=True):
            torch.index_select(table, 0, rows, out=batch_order[: mapping.numel()])

"""The host path is the V1 runner's part of production: columns, staging, lists of copies, and the entry points around
the kernels. It runs unmodified, on objects with the same contents as a runner's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

from harness.kernels.targets.arguments import HostBatch, HostRequest, StagedView, StateMove
from harness.kernels.targets.vllm.runner import Runner

_STAGED = {
    "state_column": "mamba_state_idx_buf",
    "scheduled": "num_scheduled_tokens_buf",
    "computed": "num_computed_tokens_buf",
    "draft": "num_draft_tokens_buf",
    "source_column": "precopy_src_col_buf",
    "bias": "precopy_token_bias_buf",
}


class HostPath:
    """The host path of one runner: `worker` is the file under test, `buffers` what it created for the runner,
    `functions` the copy functions in the form that this version wants."""

    def __init__(
        self, worker: ModuleType, objects: Runner, tables: Sequence[torch.Tensor], buffers: Any, functions: Any
    ) -> None:
        self.worker = worker
        self.objects = objects
        self._functions = functions
        self._buffers = buffers
        self._context = buffers.postprocess_align
        self._groups = objects.mamba_groups
        self._tables = {number: _BlockTable(table) for number, table in zip(self._groups, tables, strict=True)}

    @property
    def staged(self) -> Mapping[str, StagedView]:
        """Views and mirrors of the context; releases without a fused precopy for V1 have four."""
        buffers = {name: getattr(self._context, attribute, None) for name, attribute in _STAGED.items()}
        return {name: StagedView(buffer.np, buffer.gpu) for name, buffer in buffers.items() if buffer is not None}

    def stage(self, batch: HostBatch) -> None:
        self.worker.stage_postprocess_inputs_to_gpu(
            self._context,
            self.scheduler_output(batch),
            [request.name for request in batch.requests],
            batch.num_requests,
            self.requests(batch),
            batch.columns,
        )

    def postprocess(self, batch: HostBatch, accepted: torch.Tensor) -> None:
        self.worker.postprocess_mamba_align_gpu(
            bufs=self._buffers,
            num_reqs=batch.num_requests,
            num_accepted_tokens_gpu=accepted,
            num_accepted_tokens_cpu_tensor=batch.accepted,
            input_batch=self.input_batch(batch),
            kv_cache_config=self.objects.config,
            forward_context=self.objects.forward_context,
            mamba_state_copy_funcs=self._functions,
        )

    def copy(self, moves: Sequence[StateMove]) -> None:
        copies = self._buffers.preprocess
        copies.offset = 0
        for move in moves:
            self.worker.collect_mamba_copy_meta(
                copies,
                self.objects.config,
                self._functions,
                copies.mamba_group_ids,
                move.source,
                move.destination,
                move.bias,
                self._request(move.request),
                self.objects.forward_context,
            )
        self.worker.do_mamba_copy_block(copies)

    def preprocess(self, batch: HostBatch, *, context: bool | None) -> None:
        """Move by the kernel if `context`, else by a list of copies; None if this version has no choice."""
        choice = {} if context is None else {"align_ctx": self._context if context else None}
        self.worker.preprocess_mamba(
            self.scheduler_output(batch),
            self.objects.config,
            SimpleNamespace(enable_prefix_caching=True),
            batch.columns,
            self.input_batch(batch),
            self.requests(batch),
            self.objects.forward_context,
            self._functions,
            self._buffers.preprocess,
            **choice,
        )

    def scheduler_output(self, batch: HostBatch) -> SimpleNamespace:
        """What the scheduler would pass to the runner."""
        return SimpleNamespace(
            num_scheduled_tokens={request.name: request.scheduled for request in batch.requests},
            scheduled_spec_decode_tokens={
                request.name: [0] * request.draft for request in batch.requests if request.draft
            },
            finished_req_ids=set(batch.finished),
            preempted_req_ids=set(batch.preempted) or None,
            scheduled_cached_reqs=SimpleNamespace(resumed_req_ids=set(batch.resumed)),
        )

    def input_batch(self, batch: HostBatch) -> SimpleNamespace:
        """The runner's batch."""
        return SimpleNamespace(
            req_ids=[request.name for request in batch.requests[: batch.num_requests]],
            num_accepted_tokens_cpu=batch.accepted.numpy(),
            block_table=self._tables,
        )

    def requests(self, batch: HostBatch) -> dict[str, SimpleNamespace]:
        """What the runner knows about every request, by name."""
        return {request.name: self._request(request) for request in batch.requests}

    def _request(self, request: HostRequest) -> SimpleNamespace:
        blocks: list[Sequence[int]] = [[] for _ in self.objects.config.kv_cache_groups]
        for number, row in zip(self._groups, request.blocks, strict=False):
            blocks[number] = row
        return SimpleNamespace(num_computed_tokens=request.computed, block_ids=blocks)


class _BlockTable:
    """A runner's block table, as the code under test uses it."""

    def __init__(self, table: torch.Tensor) -> None:
        self._table = table

    def get_device_tensor(self, num_reqs: int) -> torch.Tensor:
        return self._table[:num_reqs]

"""A bound vLLM target is a context of one version, made for one layout, and the calls that production makes on it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from harness.case import Layout
from harness.kernels.targets.arguments import AdvanceArrays
from harness.kernels.targets.base import Bound, PostprocessArrays, PrecopyArrays, TargetLacks
from harness.kernels.targets.vllm.model_state import ModelState
from harness.kernels.targets.vllm.runner import Runner

if TYPE_CHECKING:
    from harness.kernels.targets.vllm.target import VllmTarget


class VllmBound(Bound):
    """A context, and where table rows are batch rows a second one over gathered tables, for the V2 runner.

    V1 and V2 runners never share a process. There, the V2 runner gathers the table rows of each batch into tables of
    its own before the step; here this happens before each call.
    """

    def __init__(
        self,
        target: VllmTarget,
        layout: Layout,
        objects: Runner,
        tables: Sequence[torch.Tensor],
        context: Any,
        batch_context: Any,
        gathered: Sequence[torch.Tensor],
    ) -> None:
        self._target = target
        self._layout = layout
        self._objects = objects
        self._context, self._batch_context = context, batch_context
        self._gather: Sequence[tuple[torch.Tensor, torch.Tensor]] = list(zip(gathered, tables, strict=False))

    @property
    def accepted_out(self) -> torch.Tensor:
        out: torch.Tensor = self._context.num_accepted_tokens_out
        return out

    def postprocess(self, arrays: PostprocessArrays) -> None:
        self._target.use(self._layout.conv_layout)
        if arrays.runner == "V1":
            self._context.run_fused_postprocess(
                num_reqs=arrays.num_requests,
                num_accepted_tokens_gpu=arrays.accepted,
                mamba_state_idx_gpu=arrays.state_column,
                num_scheduled_tokens_gpu=arrays.scheduled,
                num_computed_tokens_gpu=arrays.computed,
                num_draft_tokens_gpu=arrays.draft,
            )
            return
        if not self._target.features.v2:
            raise TargetLacks(f"{self._target.name} has no V2 postprocess: it came with vllm 0.25.0")
        self._batch_context.run_fused_postprocess_align(
            num_reqs=arrays.num_requests,
            num_accepted_tokens_gpu=arrays.accepted,
            state_idx_gpu=arrays.state_column,
            new_num_computed_tokens_gpu=arrays.new_computed,
            idx_mapping=self._in_batch_order(arrays.mapping),
        )

    def precopy(self, arrays: PrecopyArrays) -> None:
        features = self._target.features
        if arrays.runner == "V1" and not features.v1_precopy:
            raise TargetLacks(f"{self._target.name} has no fused precopy for V1: it came with vllm 0.27.0")
        if not features.v2:
            raise TargetLacks(f"{self._target.name} has no fused precopy: it came with vllm 0.25.0")
        self._target.use(self._layout.conv_layout)
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
        """The V2 runner's; made when it is first needed, since most cases need none."""
        assert self._target.hybrid is not None
        return ModelState(self._target.hybrid, self._layout, self._objects.config, self._target.device)

    def advance(self, arrays: AdvanceArrays) -> None:
        if not self._target.features.advance:
            raise TargetLacks(f"{self._target.name} has no advance: it came with vllm 0.25.0")
        self._model_state.advance(arrays)

    def _in_batch_order(self, mapping: torch.Tensor | None) -> torch.Tensor:
        """The mapping, after the rows it names were gathered where this version wants them by batch row."""
        if mapping is None:
            raise ValueError("a V2 call needs an index mapping")
        if self._gather and mapping.numel():
            rows = mapping.clamp(min=0)  # a skipped row gets some row: the kernel must not look at it
            for batch_order, table in self._gather:
                torch.index_select(table, 0, rows, out=batch_order[: mapping.numel()])
        return mapping

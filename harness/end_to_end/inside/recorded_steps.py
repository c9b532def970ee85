"""Recorded steps are what the runner of an engine gave its layers, step by step: to be compared with a symbolic run's.

They are noted when a step samples: then its inputs are still as layers had them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from harness.case.step_row import StepRow

Sample = Callable[..., Any]

UTILITIES = "vllm.v1.worker.mamba_utils"


def with_record(sample: Sample) -> Sample:
    """`GPUModelRunner._sample`, which notes the step for the runner's engine where that asks for it."""

    def note_and_sample(self: Any, logits: Any, spec_decode_metadata: Any, *args: Any, **kwargs: Any) -> Any:
        engine = getattr(self, "scripted_engine", None)
        if engine is not None and engine.recorded is not None:
            engine.recorded.append(_rows(self, engine, spec_decode_metadata))
        return sample(self, logits, spec_decode_metadata, *args, **kwargs)

    return note_and_sample


def _rows(runner: Any, engine: Any, spec_decode_metadata: Any) -> list[StepRow]:
    batch = runner.input_batch
    count = batch.num_reqs
    computed = runner.num_computed_tokens[:count].tolist()
    scheduled = runner.num_scheduled_tokens.np[:count].tolist()
    drafts = [0] * count if spec_decode_metadata is None else list(spec_decode_metadata.num_draft_tokens)
    accepted = runner.num_accepted_tokens.gpu[:count].tolist() if runner.num_spec_tokens else [1] * count
    columns = [runner.mamba_state_idx[name] for name in batch.req_ids]
    mamba: list[list[tuple[int, ...]]] = []
    attention: list[list[tuple[int, ...]]] = []
    for group, table in zip(engine.groups, batch.block_table.block_tables, strict=True):
        kind = mamba if hasattr(group.kv_cache_spec, "mamba_type") else attention
        kind.append(
            [tuple(table.block_table.np[row, : table.num_blocks_per_row[row]].tolist()) for row in range(count)]
        )
    moves = _moves(runner, columns)
    return [
        StepRow(
            request=int(batch.req_ids[row]),
            slot=row,
            computed=computed[row],
            scheduled=scheduled[row],
            drafts=drafts[row],
            accepted=accepted[row],
            state_column=columns[row],
            move=moves[row],
            attention=tuple(rows[row] for rows in attention),
            mamba=tuple(rows[row] for rows in mamba),
        )
        for row in range(count)
    ]


def _moves(runner: Any, columns: list[int]) -> list[tuple[int, ...] | None]:
    """What the kernel before the forward pass moves: source and bias. Where the host makes a list of copies instead,
    it is not known."""
    context = getattr(runner._get_mamba_bufs(), "postprocess_align", None)
    fused = None if context is None else importlib.import_module(UTILITIES)._resolve_fused_precopy(context)
    if fused is None:
        return [()] * len(columns)
    sources, biases = (buffer.np[: len(columns)].tolist() for buffer in (fused.src_col, fused.token_bias))
    return [
        None if source < 0 or source == column else (source, bias)
        for source, bias, column in zip(sources, biases, columns, strict=True)
    ]

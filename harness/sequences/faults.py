"""Planted faults are mistakes that production code could have, made on purpose so that a dead check is noticed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from harness.generators.sequences.configurations import Pins
from harness.issues.change import Change
from harness.issues.engine_changes import wrap_split
from harness.kernels.targets.vllm.scheduling.rules import ColumnUnit


class Fault(NamedTuple):
    """A description, the axes to run it on, and the change that plants it."""

    summary: str
    pins: Pins
    change: Change


def _whole_blocks(size: int) -> Callable[..., int]:
    """A rule of `wrap_split` that rounds the end of every prefill chunk down to a block."""

    def rule(split: Callable[..., int], request: Any, tokens: int, *hits: int) -> int:
        start = request.num_computed_tokens + sum(hits)
        if start >= max(request.num_prompt_tokens, request.num_tokens - 1):
            return int(split(request, tokens, *hits))
        end = (start + tokens) // size * size
        return int(max(end - start, 0))

    return rule


FAULTS: Mapping[str, Fault] = {
    "chunk-off-grid": Fault(
        "a prefill chunk ends off the block grid",
        Pins(retention="dense", chunks=True, partial=False, checkpoints=False),
        Change(engine=lambda engine: wrap_split(engine, lambda split, request, tokens, *hits: tokens)),
    ),
    "chunk-never-ends": Fault(
        "a prefill chunk that does not reach the end of a block is never scheduled",
        Pins(block_size=8, partial=False, checkpoints=False),
        Change(engine=lambda engine: wrap_split(engine, _whole_blocks(engine.config.block_size))),
    ),
    "kept-columns": Fault(
        "state columns of preempted requests are kept",
        Pins(tight=True, block_size=4),
        Change(rules=lambda rules: dataclasses.replace(rules, forgets_columns=False)),
    ),
    "accepted-not-reset": Fault(
        "the accepted count is not reset when a state moves within its block",
        Pins(block_size=4, spec_method="mtp"),
        Change(rules=lambda rules: dataclasses.replace(rules, resets_accepted=False)),
    ),
    "plain-decode-row": Fault(
        "a decode row without drafts is treated as a plain one",
        Pins(spec_method="ngram", asynchronous=False),
        Change(rules=lambda rules: dataclasses.replace(rules, zero_drafts=False)),
    ),
    "other-block-size": Fault(
        "a state column is seeded in another block size",
        Pins(retention="dense"),
        Change(rules=lambda rules: dataclasses.replace(rules, column_unit=ColumnUnit.HALF)),
    ),
}

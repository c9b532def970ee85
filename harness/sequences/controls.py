"""Controls are switches that change what a run drives: planted faults, and fixes of known issues.

A planted fault is a mistake that production code could make, made on purpose, so that a dead check is noticed. A fix
takes one issue out, to show that it is the only cause of a violation: a finding is not one before the same events were
run with the suspect rule switched.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from harness.case.problem import InvalidCase
from harness.generators.sequences.configurations import Pins
from harness.sequences.fixes import CHANGES, wrap_split
from harness.suggestions import unknown


class Fault(NamedTuple):
    """A planted fault: what it is, and the axes to run it on."""

    summary: str
    pins: Pins


FAULTS = {
    "chunk-off-grid": Fault(
        "a prefill chunk ends off the block grid",
        Pins(retention="dense", chunks=True, partial=False, checkpoints=False),
    ),
    "kept-columns": Fault("state columns of preempted requests are kept", Pins(tight=True, block_size=4)),
    "accepted-not-reset": Fault(
        "the accepted count is not reset when a state moves within its block",
        Pins(block_size=4, spec_method="mtp"),
    ),
    "plain-decode-row": Fault(
        "a decode row without drafts is treated as a plain one",
        Pins(spec_method="ngram", asynchronous=False),
    ),
    "other-block-size": Fault("a state column is seeded in another block size", Pins(retention="dense")),
}

FIXES = {
    "fresh-rows": "rows with placeholder drafts of requests of which nothing is computed decode from an empty state",
    "split-block-size": "prefill chunks are aligned to the Mamba block size, whatever the smallest block size is",
    "realign-chunks": "a chunk that starts inside a block ends at the next boundary, also with a checkpoint inside it",
    "export-with-block": "layers export a checkpoint only from the chunk for which the block manager keeps a block",
    "settled-counts": "an asynchronous V1 engine looks accepted counts up by request, not by row",
    "forget-unscheduled": "a request preempted in the step that scheduled it takes the blocks cached for it out again",
    "drained-queue": "a V1 worker takes the scheduler's counts as they are once all outputs were delivered",
    "keep-accepted": "a V1 row that was left out of a step finds its accepted count again",
    "zero-draft-rows": "a decode without drafts runs as a speculative row with none, as since 0.32",
    "padded-prompt-tails": "a row that is the last token of a prompt and its padding runs as a decode, as since 0.30",
    "tails-before-extends": "such a row runs as a decode wherever it stands in a V1 batch",
    "recomputed-as-prefills": "a V1 row that computes outputs again runs as a prefill, however few they are",
    "mamba-columns": "a V2 state column is seeded in Mamba blocks, whatever the smallest block size is, as since 0.32",
    "defer-fresh-sources": "a request waits whose partial hit would be copied from a block that this step fills",
    "tails-of-prompts": "a partial entry is registered only by a step that computes tokens of the prompt",
    "relocate-at-checkpoints": "a step with a checkpoint inside moves speculative blocks on like any other, as in 0.32",
    "whole-padding": "a one-token prompt whose padding would be cut is not padded, as since 0.29",
    "padding-below-limit": "a one-token prompt is padded only where the next token still fits, as since 0.29",
    "truncated-hits": "the blocks of every attention group end where the prefix hit ends, as since 0.29",
    "aligned-eagle-chunks": "up to 0.26, a chunk that starts inside a block ends at the next boundary",
    "discard-frames": "a forced reset discards as many outputs as are in flight, not as many tokens",
}


class Controls(msgspec.Struct, frozen=True, kw_only=True):
    """`faults` and `fixes` by name; a run narrows the fixes to those that its case can need. `check_entries` off leaves
    poisoned cache entries to whoever reads them.

    Raises InvalidCase for a name that does not exist.
    """

    faults: tuple[str, ...] = ()
    fixes: tuple[str, ...] = ()
    check_entries: bool = True

    def __post_init__(self) -> None:
        for kind, names, known in (("fault", self.faults, FAULTS), ("fix", self.fixes, FIXES)):
            for name in names:
                if name not in known:
                    raise InvalidCase(unknown(kind, [name], known))

    def apply(self, engine: Any, worker: Any) -> None:
        """Change one engine and its worker."""
        for fault in self.faults:
            if fault == "chunk-off-grid":
                wrap_split(engine, lambda split, request, tokens, *hits: tokens)
            worker.fault = fault
        for name, change in CHANGES.items():
            if name in self.fixes:
                change(engine, worker)

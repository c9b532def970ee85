"""Ten faults that the catalogue of deviations was not written for: mistakes that people make in kernels and host code.

They were made after the catalogue. A diagnosis must not give one of them the name of something else.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from harness.kernels.mutations.mutation import Mutation, Rewrite


class Foreign(NamedTuple):
    """A fault, and the deviations that would describe it rightly."""

    mutation: Mutation
    right: Collection[str] = ()


def _planted(
    name: str, summary: str, file: str, function: str, pattern: str, text: str, operations: tuple[str, ...]
) -> Mutation:
    rewrites = {"builtin": {f"fused/{file}": [[Rewrite(function, pattern, text)]]}}
    return Mutation(name=name, summary=summary, rewrites=rewrites, operations=operations)


FOREIGN = (
    Foreign(
        _planted(
            "bias-up-to-two",
            "Windows that move as one run are taken from two tokens on at most.",
            "copy.py",
            "locate",
            "block_stride + bias * unit",
            "block_stride + tl.minimum(bias, 2) * unit",
            ("postprocess", "precopy"),
        )
    ),
    Foreign(
        _planted(
            "last-of-four",
            "A shift inside a block, which goes by four tokens, leaves out a last one that is alone.",
            "copy.py",
            "_shift_columns",
            "range(0, tokens, 4)",
            "range(0, tokens - 1, 4)",
            ("postprocess",),
        )
    ),
    Foreign(
        _planted(
            "any-draft-is-one",
            "Temporal states are read one column further on if any draft was accepted, however many were.",
            "copy.py",
            "look_up_blocks",
            "source_column + temporal_bias",
            "source_column + tl.minimum(temporal_bias, 1)",
            ("postprocess", "precopy"),
        )
    ),
    Foreign(
        _planted(
            "length-of-next-step",
            "The V1 postprocess counts the token that is sampled as computed.",
            "postprocess.py",
            "_progress",
            "new = running + count - 1",
            "new = running + count",
            ("postprocess",),
        ),
        ("accepted-one-more",),
    ),
    Foreign(
        _planted(
            "column-before-last-token",
            "Advance takes the column of the last token but one.",
            "advance.py",
            "advance_kernel",
            "moved = (tokens - 1) // block_size",
            "moved = tl.maximum(tokens - 2, 0) // block_size",
            ("advance",),
        )
    ),
    Foreign(
        _planted(
            "bias-of-first-row",
            "The host gives all requests the bias of the first row.",
            "host.py",
            "HostSide.preprocess",
            "bias = int(counts[row]) - 1",
            "bias = max(int(counts[0]) - 1, 0)",
            ("preprocess",),
        )
    ),
    Foreign(
        _planted(
            "remembers-next-column",
            "After a decode the column of the token that comes next is remembered.",
            "columns.py",
            "remember_decodes",
            "columns[name] = (computed + scheduled - 1) // block_size",
            "columns[name] = (computed + scheduled) // block_size",
            ("all-mode",),
        )
    ),
    Foreign(
        _planted(
            "arguments-swapped",
            "Staging takes the computed tokens for the scheduled ones and the other way round.",
            "host.py",
            "HostSide.stage",
            "numbers = column, request.scheduled, request.computed, request.draft",
            "numbers = column, request.computed, request.scheduled, request.draft",
            ("stage", "postprocess-entry"),
        )
    ),
    Foreign(
        _planted(
            "pages-without-padding",
            "Blocks are as far apart as a state is long, whatever else is in a page.",
            "context.py",
            "_record",
            "return [addresses[0], block_stride,",
            "return [addresses[0], extent,",
            ("postprocess", "precopy"),
        )
    ),
    Foreign(
        _planted(
            "first-column-is-fresh",
            "Precopy takes requests in column 0 for requests without a state.",
            "precopy.py",
            "_columns",
            "inside & (source >= 0) &",
            "inside & (source > 0) &",
            ("precopy",),
        )
    ),
)

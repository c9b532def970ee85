"""Postprocess: where the state of a request belongs after a step, from its numbers alone."""

from __future__ import annotations

from typing import Any

from harness.export.kernel_script.expected import Move


def after_step(row: dict[str, Any], block_size: int) -> tuple[Move | None, int]:
    """What moves, and the accepted count afterwards. If the tokens kept by the step reach a block boundary, the state
    at the last one belongs into the block that ends there."""
    running = row["computed"] + row["scheduled"] - row["draft"]  # up to the first token that is always kept
    aligned = (running + row["accepted"] - 1) // block_size * block_size
    if aligned < running:
        return None, row["accepted"]
    source, destination, bias = row["state_column"], aligned // block_size - 1, aligned - running
    accepted = 1 if source == destination else row["accepted"]
    if source == destination and bias == 0:
        return None, accepted
    return Move(row["slot"], source, destination, bias), accepted

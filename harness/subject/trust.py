"""Trust: repro files come from anywhere, and must not choose what code of this machine runs."""

from __future__ import annotations

from harness.case import InvalidCase


def may_choose(target: str) -> bool:
    """Whether a file may choose a target: our own kernels or a release, never a path or a plug-in."""
    base = target.partition("+")[0]
    return base == "builtin" or base.startswith("vllm==")


def unnamed_target(name: str) -> InvalidCase:
    """The refusal of a file that was found on a target `name` which no file may choose."""
    return InvalidCase(
        f"the file was found on {name!r}, and a file may not choose what code of this machine runs: "
        f"name the target yourself: --target {name!r}"
    )

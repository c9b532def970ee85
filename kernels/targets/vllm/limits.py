"""A limit is memory that nothing in a version of vLLM can ask for: no layer of its models, no option that it accepts.

A case with such memory is a skip, but only where the version declines it: it is called first, and what it accepts is
judged. What it declines without a limit is a finding: an assertion in production is no contract. So there is nothing
here about windows in DS layout, drafts or alignment.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harness.case import Layout
from harness.kernels.targets.base import TargetLacks
from harness.kernels.targets.vllm.features import Features
from harness.kernels.targets.vllm.runner import Runner
from harness.text import one_line

DECLINES = (AssertionError, IndexError, ValueError)
"""What the known versions raise when they are bound to memory that they have no code for."""


def limit(features: Features, layout: Layout, objects: Runner) -> str | None:
    """Why no model on this version has such memory; None if one can."""
    specs = objects.specs
    if not features.states_per_layer and any(spec != specs[0] for spec in specs):
        return "no model has Mamba layers that differ before vllm 0.29.0"
    if any(len(spec.shapes) > len(kinds) for spec, kinds in zip(specs, objects.layer_kinds, strict=True)):
        if features.uncopied == "never":
            return "no layer has cache tensors that are not copied before vllm 0.27.0"
        if features.uncopied == "without drafts" and layout.num_spec:
            return "cache tensors that are not copied exclude drafts before vllm 0.29.0 (vllm/config/vllm.py)"
    return None


def context_limit(features: Features, objects: Runner) -> str | None:
    """Why no runner of this version makes a context for such memory, though it serves it by the scalar path; None if
    one does."""
    if features.uncopied == "without drafts" and any(
        len(spec.shapes) > len(kinds) for spec, kinds in zip(objects.specs, objects.layer_kinds, strict=True)
    ):
        return "a layer with cache tensors that are not copied has no context for fused kernels before vllm 0.29.0"
    return None


@contextmanager
def declining(limit: str | None) -> Iterator[None]:
    """Raise TargetLacks if the version declines what it cannot be asked for."""
    try:
        yield
    except DECLINES as error:
        if limit is None:
            raise
        raise TargetLacks(f"{limit}; it raises {type(error).__name__}: {one_line(error)}") from error

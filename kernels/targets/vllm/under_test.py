"""The files under test are those of vLLM that kernel cases run unmodified. Everything else may be replaced."""

from __future__ import annotations

from harness.kernels.targets.vllm.features import moved_files
from harness.kernels.targets.vllm.helpers import with_helpers
from harness.kernels.targets.vllm.sources import HYBRID, LAYERS, MATH, WORKER, SourceTree


def files_under_test(tree: SourceTree, *, hybrid: bool) -> tuple[str, ...]:
    """The files of a target, later ones import from earlier ones; `hybrid`: those of V2's host code, too. Raises
    UnknownTarget if one cannot be read."""
    files = (MATH, LAYERS, *moved_files(tree, WORKER), WORKER)
    if hybrid:
        files += (*moved_files(tree, HYBRID), HYBRID)
    return with_helpers(tree, tuple(dict.fromkeys(files)))

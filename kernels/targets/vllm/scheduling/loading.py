"""Loading makes `vllm` in this process the whole package of one release, unmodified.

Nothing is replaced: the sources are put first in the import path, and the environment says that there is no GPU.
One process serves one release. The code that starts the process fixes the hash seed, because the order of sets of
request names affects the decisions of a scheduler.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import warnings
from pathlib import Path
from typing import Any

from harness.kernels.targets.vllm.base_release import BaseRelease
from harness.kernels.targets.vllm.scheduling.release_source import ReleaseSource
from harness.kernels.targets.vllm.scheduling.sources import WholeTree, require_packages, whole_tree
from harness.kernels.targets.vllm.sources import RELEASE_PREFIX
from harness.refusal import UnknownTarget
from harness.text import one_line

HASH_SEED = "0"
"""PYTHONHASHSEED of every process that drives a scheduler."""

_SCHEDULER = "vllm.v1.core.sched.scheduler"
_loaded: WholeTree | None = None
_base: ReleaseSource | None = None
"""The source of the base release of what is loaded, if that is another one."""


def load(name: str, base: BaseRelease | None = None) -> WholeTree:
    """Make `vllm` the target `name`. `base` is its base release; None: it is a release, or that is not known.
    Raises UnknownTarget if packages are missing, or if it cannot be imported here."""
    global _loaded, _base  # noqa: PLW0603 - one process, one release
    require_packages()
    tree = whole_tree(name)
    if _loaded is not None:
        if _loaded != tree:
            raise RuntimeError(f"this process has already loaded {_loaded.origin}; one process serves one target")
        return tree
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
    # Read when the first block hash is made; the same root in every process makes the same hashes.
    os.environ["PYTHONHASHSEED"] = HASH_SEED
    sys.path.insert(0, str(tree.directory))
    logging.getLogger("transformers").setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module(_SCHEDULER)
    except UnknownTarget:
        sys.path.remove(str(tree.directory))
        raise
    if base is not None and name != f"{RELEASE_PREFIX}{base.version}":
        _base = ReleaseSource(base.tree.directory, base.name)
    _loaded = tree
    return tree


def use_imported(directory: Path, origin: str) -> None:
    """Take what this process has imported as `vllm` for the loaded release: `directory` contains it, `origin` names it
    in messages. For processes of an environment in which vLLM is installed."""
    global _loaded  # noqa: PLW0603 - one process, one release
    if _loaded is None:
        _loaded = WholeTree(directory, origin)


def own_source() -> ReleaseSource:
    """The source of what is loaded."""
    assert _loaded is not None, "nothing is loaded"
    return ReleaseSource(_loaded.directory, _loaded.origin)


def base_source() -> ReleaseSource:
    """The source of its base release: of the release itself, if one is loaded."""
    return own_source() if _base is None else _base


def has_base() -> bool:
    """Whether what is loaded was made from another release."""
    return _base is not None


def module(name: str) -> Any:
    """A module of the loaded release. Raises UnknownTarget, with one line, if it cannot be imported."""
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:  # any error of an import: the module does not load here
        reason = one_line(error)[:200]
        raise UnknownTarget(f"{name} does not import here: {type(error).__name__}: {reason}") from error

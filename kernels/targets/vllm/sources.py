"""A source tree is a directory with one version of vLLM's Python files, as `vllm/...`, from any origin.

This is the only difference between three kinds of target: a release (the cache of releases), the vLLM installed next to
the harness, and a checkout that is being edited.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from harness.kernels.targets.downloading import Announce
from harness.kernels.targets.releases import Package, cached, release
from harness.kernels.targets.vllm.python_text import NotPythonText, python_text
from harness.refusal import UnknownTarget

RELEASE_PREFIX = "vllm=="
PATH_PREFIX = "path:"

WORKER = "vllm/v1/worker/mamba_utils.py"
"""The fused kernels, their context, and the host code around them."""
LAYERS = "vllm/model_executor/layers/mamba/mamba_utils.py"
"""Copy functions, and the process-wide setting of SD or DS for conv states."""
MATH = "vllm/utils/math_utils.py"
HYBRID = "vllm/v1/worker/gpu/model_states/mamba_hybrid.py"
"""The V2 runner's model state: advance, and the update of accepted counts."""
INPUT_BATCH = "vllm/v1/worker/gpu/input_batch.py"
"""The V2 runner's batch, which has the integer type of its index mapping."""
CACHE_OPTIONS = "vllm/config/cache.py"
OPTIONS = "vllm/config/vllm.py"
"""Options, and which of them exclude each other."""
SCHEDULER = "vllm/v1/core/sched/scheduler.py"
MANAGERS = "vllm/v1/core/single_type_kv_cache_manager.py"
HOST = "vllm/v1/worker/gpu_model_runner.py"
"""The V1 runner."""

VLLM = Package(
    name="vllm",
    # Scheduler and block manager are under v1: a simulated schedule is compared with them.
    kept=("vllm/v1/", "vllm/model_executor/layers/mamba/", "vllm/utils/", "vllm/config/"),
    needed=(WORKER, LAYERS, MATH, INPUT_BATCH),
)
"""What kernel cases need of a release."""

VLLM_WHOLE = Package(name="vllm", kept=("vllm/",), needed=(SCHEDULER, MANAGERS, HOST), entry="vllm-whole")
"""What step sequences need of a release: all of its Python files."""


@dataclass(frozen=True)
class SourceTree:
    """`directory` contains `vllm/`. `origin` names it in messages; a `stable` one never changes its files.

    An `installed` one is the one that `import vllm` finds.
    """

    directory: Path
    origin: str
    stable: bool
    installed: bool = False

    def path(self, file: str) -> Path:
        """Where `file` (`vllm/...`) is."""
        return self.directory / file

    def has(self, file: str) -> bool:
        """Whether there is such a file."""
        return self.path(file).is_file()

    def text(self, file: str) -> str:
        """The contents of `file`. Raises UnknownTarget if it is missing or is not text."""
        try:
            return python_text(self.path(file))
        except (OSError, NotPythonText) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise UnknownTarget(f"{self.origin}: cannot read {file}: {reason}") from error


def release_tree(version: str, announce: Announce | None = None) -> SourceTree:
    """The sources of a release, downloaded if necessary. Raises UnknownTarget."""
    return SourceTree(release(VLLM, version, announce).directory, f"vllm {version}", stable=True)


def cached_tree(version: str) -> SourceTree | None:
    """The sources of a release, or all of its files, whichever is in the cache, complete and unchanged; else None."""
    found = cached(VLLM, version) or cached(VLLM_WHOLE, version)
    return None if found is None else SourceTree(found.directory, f"vllm {version}", stable=True)


def cached_whole_tree(version: str) -> SourceTree | None:
    """All Python files of a release, if they are in the cache, complete and unchanged; else None."""
    found = cached(VLLM_WHOLE, version)
    return None if found is None else SourceTree(found.directory, f"vllm {version}", stable=True)


def source_tree(name: str, announce: Announce | None = None) -> SourceTree:
    """The sources of a target, `vllm==X`, `path:DIR` or `vllm`, downloaded if necessary. Raises UnknownTarget."""
    if name.startswith(RELEASE_PREFIX):
        return release_tree(name.removeprefix(RELEASE_PREFIX), announce)
    if name.startswith(PATH_PREFIX):
        return checkout_tree(name.removeprefix(PATH_PREFIX))
    return installed_tree()


def installed_tree() -> SourceTree:
    """The sources of the vLLM that `import vllm` would find, without importing it. Raises UnknownTarget."""
    try:
        spec = importlib.util.find_spec("vllm")
    except (ImportError, ValueError) as error:
        raise UnknownTarget(f"the installed vllm cannot be located: {error}") from error
    for location in (spec and spec.submodule_search_locations) or ():
        directory = Path(location).parent
        if (directory / WORKER).is_file():
            return SourceTree(directory, "the installed vllm", stable=False, installed=True)
    raise UnknownTarget("vllm is not installed next to the harness; a release can be named instead: vllm==0.33.0")


def checkout_tree(path: str) -> SourceTree:
    """The sources in a checkout of vLLM's repository: the directory that contains `vllm/`. Raises UnknownTarget."""
    directory = Path(path).expanduser().resolve()
    if not directory.is_dir():
        raise UnknownTarget(f"path:{path}: there is no such directory")
    if not (directory / WORKER).is_file():
        raise UnknownTarget(f"path:{path} is not a checkout of vLLM: it has no {WORKER}")
    return SourceTree(directory, f"the checkout {directory}", stable=False)

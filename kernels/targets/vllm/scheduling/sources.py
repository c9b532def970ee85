"""The source of a release's scheduler side: all of its Python files, unpacked or installed.

The kernels need a few modules and run on stubs (kernels/targets/vllm/importing.py). A scheduler uses half of the
package: configuration, requests, block managers, the batch of the worker. So all Python files of the release are kept,
and the few packages that they import have to be installed: the optional extra `sequences`.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from harness.kernels.targets.downloading import Announce
from harness.kernels.targets.releases import check_version, release
from harness.kernels.targets.vllm.sources import VLLM_WHOLE, checkout_tree, installed_tree
from harness.refusal import UnknownTarget

REQUIRED = (
    "PIL",
    "aiohttp",
    "cachetools",
    "cbor2",
    "cloudpickle",
    "cpuinfo",
    "einops",
    "fastapi",
    "llguidance",
    "msgspec",
    "openai",
    "openai_harmony",
    "partial_json_parser",
    "prometheus_client",
    "psutil",
    "pybase64",
    "pydantic",
    "regex",
    "requests",
    "transformers",
    "urllib3",
    "uvloop",
    "xgrammar",
    "zmq",
)
"""Modules that the scheduler side of a release imports, in addition to those that the harness needs."""

EXTRA = "sequences"

OLDEST = "0.25.0"
"""The oldest release whose scheduler the harness drives. Older ones have no V2 runner for Mamba models, and import
packages that are not in the extra."""


@dataclass(frozen=True)
class WholeTree:
    """`directory` contains `vllm/`; `origin` names it in messages."""

    directory: Path
    origin: str


def missing_packages() -> list[str]:
    """Modules of REQUIRED that this Python lacks. Imports none of them."""
    return [name for name in REQUIRED if importlib.util.find_spec(name) is None]


def require_packages() -> None:
    """Raise UnknownTarget, with one line that says what to install, if a package of the extra is missing."""
    missing = missing_packages()
    if missing:
        named = ", ".join(missing[:4]) + (f" and {len(missing) - 4} more" if len(missing) > 4 else "")
        raise UnknownTarget(
            f"step sequences drive vLLM's own scheduler, which imports {named}: install the extra in the folder of the "
            f"harness, pip install -c constraints.txt -e '.[{EXTRA}]'"
        )


def check(name: str) -> None:
    """Raise UnknownTarget if the target `name` has no scheduler or is invalid. Quick."""
    if name.startswith("vllm=="):
        version = name.removeprefix("vllm==")
        check_version(VLLM_WHOLE, version)
        if Version(version) < Version(OLDEST):
            raise UnknownTarget(f"{name} is too old: the schedulers of releases are driven from {OLDEST} on")
    elif name.startswith("path:"):
        checkout_tree(name.removeprefix("path:"))
    elif name == "vllm":
        installed_tree()
    else:
        raise UnknownTarget(f"{name} has no scheduler: step sequences need vllm==VERSION, vllm or path:DIRECTORY")


def whole_tree(name: str, announce: Announce | None = None) -> WholeTree:
    """The Python files of a target, downloaded if necessary. Raises UnknownTarget."""
    check(name)
    if name.startswith("vllm=="):
        version = name.removeprefix("vllm==")
        return WholeTree(release(VLLM_WHOLE, version, announce).directory, f"vllm {version}")
    tree = checkout_tree(name.removeprefix("path:")) if name.startswith("path:") else installed_tree()
    return WholeTree(tree.directory, tree.origin)

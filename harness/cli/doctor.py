"""`harness doctor`: what this machine can do."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from typing import Any

import msgspec
import typer

from harness import __version__
from harness.cli.options import JsonOption
from harness.text import counted

PACKAGES = ("torch", "triton", "llvmlite", "numpy", "msgspec", "pip", "hypothesis", "vllm")


def doctor(json: JsonOption = False) -> None:
    """Report what this machine can do: versions, executors (or why they cannot run), the cache. Status 2 if no executor
    runs."""
    from harness.kernels.cache_directory import cache_directory
    from harness.kernels.executors.registry import executor_names, why_unavailable
    from harness.kernels.executors.requirements import disagreements

    packages = {name: _version(name) for name in PACKAGES}
    executors = {name: why_unavailable(name, imports=True) for name in executor_names()}
    report: dict[str, Any] = {
        "harness": __version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {counted(os.cpu_count() or 1, 'core')}",
        "packages": packages,
        "executors": executors,
        "notes": disagreements(),
        "cache": str(cache_directory()),
    }
    if json:
        print(msgspec.json.encode(report).decode())
    else:
        print(f"harness {__version__}, Python {report['python']}, {report['machine']}")
        for name, version in packages.items():
            print(f"  {name:12} {version or 'not installed'}")
        for name, reason in executors.items():
            print(f"  executor {name:12} {'ready' if reason is None else f'not here: {reason}'}")
        for note in report["notes"]:
            print(f"  note         {note}")
        print(f"  cache        {report['cache']}")
    if all(reason is not None for reason in executors.values()):
        typer.echo("harness: no executor runs on this machine", err=True)
        sys.exit(2)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None

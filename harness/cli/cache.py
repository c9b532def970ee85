"""`harness cache`: the releases whose sources are stored on this machine."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from harness.cli import options
from harness.cli.options import JsonOption
from harness.kernels.cache_directory import cache_directory
from harness.kernels.targets.base import UnknownTarget
from harness.kernels.targets.releases import entries, release, remove
from harness.text import counted

app = typer.Typer(help="List, fetch or remove what the harness stores on this machine.", no_args_is_help=True)

_REMADE = ("native", "sources")
"""Folders of the cache that are refilled automatically: compiled kernels, rewritten sources."""

Releases = Annotated[
    list[str], typer.Argument(help="Releases: 0.33.0, vllm==0.33.0, or a range such as 'vllm>=0.30'.", metavar="X...")
]


@app.command("list")
def list_entries(json: JsonOption = False) -> None:
    """List cached releases with their size, and whether every file still has its checksum. `vllm-X` are the few files
    that kernel cases need, `vllm-whole-X` are whole trees, for step sequences."""
    found = list(entries())
    remade = {name: _size(cache_directory() / name) for name in _REMADE}
    if json:
        report = {
            "directory": str(cache_directory()),
            "releases": [
                {
                    "name": entry.name,
                    "package": entry.manifest.package if entry.manifest else None,
                    "version": entry.manifest.version if entry.manifest else None,
                    "wheel": entry.manifest.wheel.file if entry.manifest else None,
                    "wheel_sha256": entry.manifest.wheel.sha256 if entry.manifest else None,
                    "files": len(entry.manifest.files) if entry.manifest else 0,
                    "bytes": entry.size,
                    "sound": entry.sound,
                }
                for entry in found
            ],
            "remade": remade,
        }
        print(msgspec.json.encode(report).decode())
        return
    print(cache_directory())
    for entry in found:
        files = f"{len(entry.manifest.files):5} files" if entry.manifest else "      no manifest"
        state = "" if entry.sound else "  damaged: the next use downloads it again"
        print(f"  {entry.name:20} {files} {_megabytes(entry.size)}{state}")
    for name, size in remade.items():
        print(f"  {name:20}             {_megabytes(size)}  (refilled automatically)")


@app.command()
def fetch(
    releases: Releases,
    whole: Annotated[
        bool, typer.Option("--whole", help="All Python files, for step sequences, not the few that kernel cases need.")
    ] = False,
) -> None:
    """Download the sources of releases, unless they are cached already. Only Python files are kept."""
    from harness.kernels.targets.download_size import announce_downloads
    from harness.kernels.targets.registry import prepare
    from harness.kernels.targets.selection import select
    from harness.kernels.targets.vllm.sources import VLLM, VLLM_WHOLE

    chosen = select(",".join(_named(text) for text in releases))
    announce_downloads(chosen, options.announce, VLLM_WHOLE if whole else VLLM)
    for target in chosen:
        if whole and target.startswith("vllm=="):
            release(VLLM_WHOLE, target.removeprefix("vllm=="), options.announce)
        else:
            prepare(target, options.announce)
        print(f"{target} is in the cache")


@app.command()
def copy(
    name: Annotated[str, typer.Argument(help="A release: 0.33.0 or vllm==0.33.0.", metavar="X")],
    folder: Annotated[Path, typer.Argument(help="A folder that does not exist yet, or is empty.", metavar="FOLDER")],
) -> None:
    """Copy all Python files of a release into a new folder, to edit them: a target `path:FOLDER`."""
    from harness.kernels.targets.vllm.copying import copy_release

    version = _named(name).removeprefix("vllm==")
    copy_release(version, folder, options.announce)
    print(f"the Python files of vllm {version} are in {folder}")
    print(f"next harness run --target {shlex.quote(f'path:{folder}')} --fail-fast")


@app.command()
def clean(
    releases: Annotated[
        list[str] | None, typer.Argument(help="Names as `harness cache list` prints them. Default: everything.")
    ] = None,
) -> None:
    """Remove cached releases; without names, everything that the harness can download or build again."""
    found = {entry.name: entry for entry in entries()}
    wanted = list(found) if releases is None else [_entry_name(text) for text in releases]
    unknown = [name for name in wanted if name not in found]
    if unknown:
        raise UnknownTarget(f"not in the cache: {', '.join(unknown)}")
    freed = sum(found[name].size for name in wanted)
    for name in wanted:
        remove(name)
    if releases is None:
        for name in _REMADE:
            freed += _size(cache_directory() / name)
            shutil.rmtree(cache_directory() / name, ignore_errors=True)
    print(f"removed {counted(len(wanted), 'release')}, {_megabytes(freed).strip()}", file=sys.stderr)


def _named(text: str) -> str:
    """A target text; a bare version is one of vllm."""
    return f"vllm=={text}" if text[:1].isdigit() else text


def _entry_name(text: str) -> str:
    return _named(text).replace("==", "-")


def _size(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


def _megabytes(size: int) -> str:
    return f"{size / 1e6:8.1f} MB"

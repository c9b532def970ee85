"""`harness config`: the options that `harness run` has with a profile, and where each comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from harness.cli.options import JsonOption
from harness.cli.profiles import FILE, NOT_IN_PROFILES, option_name, profile_of, read_profiles
from harness.reports.console import printable


def config(
    context: typer.Context,
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="NAME", help="The profile. [default: none, only defaults]")
    ] = None,
    file: Annotated[Path, typer.Option("--config", metavar="FILE", help="The file of profiles.")] = FILE,
    json: JsonOption = False,
) -> None:
    """Print the options of `harness run` with a profile, each with where it comes from: the file, or a default.

    Options without a value are left out. Exit status: 0, or 2 where the file is wrong or has no such profile."""
    command: Any = context.find_root().command
    run = command.get_command(context, "run")
    chosen = None if profile is None else profile_of(file, profile, run.params, context)
    held: dict[str, tuple[Any, str]] = {}
    for parameter in run.params:
        if parameter.name in NOT_IN_PROFILES:
            continue
        if chosen is not None and parameter.name in chosen.values:
            held[option_name(parameter)] = chosen.values[parameter.name], chosen.place
        elif (default := parameter.default) not in (None, False, ""):
            held[option_name(parameter)] = str(default) if isinstance(default, Path) else default, "default"
    if json:
        options = {name: {"value": value, "from": source} for name, (value, source) in held.items()}
        print(msgspec.json.encode({"profile": profile, "options": options}, enc_hook=str).decode())
        return
    for name, (value, source) in held.items():
        shown = msgspec.json.encode(value, enc_hook=str).decode()
        print(printable(f"{name} = {shown}  # {source}"))
    if profile is None and file.exists():
        print(printable(f"# profiles of {file}: {', '.join(read_profiles(file)) or 'none'}"))

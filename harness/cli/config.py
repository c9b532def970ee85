"""`harness config`: the options that `harness run` has with a profile, and where each comes from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from harness.cli.options import JsonOption
from harness.cli.profiles import EXCLUSIVE, FILE, NOT_IN_PROFILES, Profile, option_name, profile_of, read_profiles
from harness.reports.console import printable

_WORKED_OUT = re.compile(r"\[default: (.+)\]$|Default: (.+)\.$")
"""What the help of an option says that holds where it is not given."""


def config(
    context: typer.Context,
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="NAME", help="The profile. [default: none, only defaults]")
    ] = None,
    file: Annotated[Path, typer.Option("--config", metavar="FILE", help="The file of profiles.")] = FILE,
    json: JsonOption = False,
) -> None:
    """Print the options of `harness run` with a profile, each with where it comes from: the file, or a default.

    Of options that are not given, what holds in their place is said in words. Exit status: 0, or 2 where the file is
    wrong or has no such profile."""
    command: Any = context.find_root().command
    run = command.get_command(context, "run")
    chosen = None if profile is None else profile_of(file, profile, run.params, context)
    held: dict[str, tuple[Any, str]] = {}
    unset: dict[str, str] = {}
    for parameter in run.params:
        if parameter.name in NOT_IN_PROFILES:
            continue
        if chosen is not None and parameter.name in chosen.values:
            held[option_name(parameter)] = chosen.values[parameter.name], chosen.place
        elif (default := parameter.default) is not None and default is not False and default != "":
            held[option_name(parameter)] = str(default) if isinstance(default, Path) else default, "default"
        elif (worked_out := _WORKED_OUT.search(parameter.help or "")) and not _excluded(parameter.name, chosen):
            unset[option_name(parameter)] = worked_out[1] or worked_out[2]
    if json:
        options = {name: {"value": value, "from": source} for name, (value, source) in held.items()}
        found = {"profile": profile, "options": options, "unset": unset}
        print(msgspec.json.encode(found, enc_hook=str).decode())
        return
    for name, (value, source) in held.items():
        shown = msgspec.json.encode(value, enc_hook=str).decode()
        print(printable(f"{name} = {shown}  # {source}"))
    for name, words in unset.items():
        print(printable(f"# {name} is not given: {words}"))
    if profile is None and file.exists():
        print(printable(f"# profiles of {file}: {', '.join(read_profiles(file)) or 'none'}"))


def _excluded(name: str, profile: Profile | None) -> bool:
    """Whether a profile has what excludes an option."""
    values = () if profile is None else profile.values
    return any(name in names and any(other in values for other in names) for names in EXCLUSIVE)

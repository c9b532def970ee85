"""The command `run` keeps its options in the campaign's folder, and `--resume FOLDER` takes them from there.

`--profile NAME` takes options from a file. Those of the command line take the place of either."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from harness.cli.groups import GroupedCommand
from harness.cli.profiles import EXCLUSIVE, FILE, READ_FIRST, is_of_its_type, profile_of
from harness.cli.run_options import is_nothing

OPTIONS = "options"
"""Where the context of the command has its options, by parameter names, as they were written."""

NOTHING = "none"
"""In place of a file or folder, for a campaign that is resumed without the one that it had."""

NOT_KEPT = ("help", "out", "resume", "folder", "json", "verbose", "plain", "profile", "config", "ray", "shards")
"""Parameters that do not belong to a campaign."""


class RunCommand(GroupedCommand):
    """`harness run`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        written: dict[str, Any] = self.make_parser(ctx).parse_args(args=list(args))[0]
        _require_names(written)
        own = {name: value for name, value in written.items() if _is_kept(name, value)}
        taken: dict[str, Any] = {}
        folder = written.get("folder")
        if written.get("resume") and isinstance(folder, str) and not written.get("help"):
            from harness.campaign.folder import CampaignFolder

            kept = CampaignFolder(Path(folder))
            known = {one.name: one for one in self.params if one.name not in NOT_KEPT}
            taken = {name: value for name, value in kept.read().options.items() if name in known}
            for name, value in taken.items():
                if not is_of_its_type(known[name], value):
                    raise kept.damaged(f"the option {name} has the value {value!r}")
            _require_same_targets(folder, taken, own)
            gone = [name for name in READ_FIRST if own.get(name) == NOTHING]
            args = [word for place, word in enumerate(args) if not _takes_away(args, place, gone)]
            for name in gone:
                del own[name]
                taken.pop(name, None)
            ctx.default_map = {**(ctx.default_map or {}), **_without(taken, own)}
        taken = {**taken, **self._profile(ctx, written, own, resumes=bool(taken))}
        if is_nothing(str(own.get("budget", ""))):  # this part alone judges nothing
            del own["budget"]
        ctx.obj = {**(ctx.obj or {}), OPTIONS: {**_without(taken, own), **own}}
        return super().parse_args(ctx, args)

    def _profile(self, ctx: Any, written: dict[str, Any], own: dict[str, Any], *, resumes: bool) -> dict[str, Any]:
        """The options of the profile that is asked for, of which those that are kept are returned. Raises
        typer.BadParameter, or InvalidProfiles."""
        name, file = written.get("profile"), written.get("config")
        if written.get("help") or (name is None and file is None):
            return {}
        if name is None:
            raise typer.BadParameter("--config is the file of a --profile: name one")
        if resumes:
            raise typer.BadParameter("--profile: the folder that is resumed knows its options")
        profile = profile_of(FILE if file is None else Path(file), name, self.params, ctx)
        held = _without(profile.values, {**own, **written})
        profile.require_paths(held.keys() - written.keys())
        ctx.default_map = {**(ctx.default_map or {}), **held}
        return {name: value for name, value in held.items() if _is_kept(name, value)}


def _require_names(written: dict[str, Any]) -> None:
    """Raise typer.BadParameter for an empty path, or for `none` where nothing can be taken away."""
    for name in READ_FIRST:
        if written.get(name) == "" or (written.get(name) == NOTHING and not written.get("resume")):
            raise typer.BadParameter(
                f"--{name} {written[name]!r}: leave it out, or name one; {NOTHING} is for --resume FOLDER, to continue "
                "without it"
            )


def _takes_away(args: Sequence[str], place: int, names: Sequence[str]) -> bool:
    """Whether a word of the command line is part of `--known none`, or of another one of `names`."""
    options = [f"--{name}" for name in names]
    before = args[place - 1] if place else ""
    return (
        args[place] in options
        or args[place] in [f"{option}={NOTHING}" for option in options]
        or (args[place] == NOTHING and before in options)
    )


def _require_same_targets(folder: str, taken: dict[str, Any], own: dict[str, Any]) -> None:
    """A campaign of one target has its journal in another place than one of several: it cannot become the other."""
    if (
        own.keys() & {"target", "targets"}
        and "targets" in {*taken, *own}
        and own.get("targets") != taken.get("targets")
    ):
        raise typer.BadParameter(f"the campaign in '{folder}' has other targets: start another one with --out")


def _without(taken: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Options of a folder that no new one replaces."""
    replaced = {name for names in EXCLUSIVE if own.keys() & set(names) for name in names}
    return {name: value for name, value in taken.items() if name not in replaced}


def _is_kept(name: str, value: Any) -> bool:
    return name not in NOT_KEPT and isinstance(value, str | bool)

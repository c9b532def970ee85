"""The command `run` keeps its options in the campaign's folder, and `--resume FOLDER` takes them from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from harness.cli.groups import GroupedCommand
from harness.cli.run_options import is_nothing

OPTIONS = "options"
"""Where the context of the command has its options, by parameter names, as they were written."""

NOT_KEPT = ("help", "out", "resume", "folder", "json", "verbose")
"""Parameters that do not belong to a campaign."""

EXCLUSIVE = (("budget", "cases"), ("target", "targets"), ("fixes", "include_known"))
"""Parameters of which a new one takes the place of the kept one, whichever that is."""


class RunCommand(GroupedCommand):
    """`harness run`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        written: dict[str, Any] = self.make_parser(ctx).parse_args(args=list(args))[0]
        own = {name: value for name, value in written.items() if _is_kept(name, value)}
        taken: dict[str, Any] = {}
        folder = written.get("folder")
        if written.get("resume") and isinstance(folder, str) and not written.get("help"):
            from harness.campaign.folder import CampaignFolder

            kept = CampaignFolder(Path(folder))
            known = {one.name: one for one in self.params if one.name not in NOT_KEPT}
            taken = {name: value for name, value in kept.read().options.items() if name in known}
            for name, value in taken.items():
                if isinstance(value, bool) != bool(getattr(known[name], "is_flag", False)):
                    raise kept.damaged(f"the option {name} has the value {value!r}")
            _require_same_targets(folder, taken, own)
            ctx.default_map = {**(ctx.default_map or {}), **_without(taken, own)}
        if is_nothing(str(own.get("budget", ""))):  # this part alone judges nothing
            del own["budget"]
        ctx.obj = {**(ctx.obj or {}), OPTIONS: {**_without(taken, own), **own}}
        return super().parse_args(ctx, args)


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

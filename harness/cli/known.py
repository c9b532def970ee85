"""`harness known`: the file of mutes that `harness run --known` takes."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import UNSET

from harness.cli.options import announce, option
from harness.suggestions import unknown

if TYPE_CHECKING:
    from harness.campaign.mute import Mute

NARROWINGS = ("line", "case")
DIGITS_OF_NAMES = 8
"""How many digits of the checksum of its case the name of a finding's file ends with."""

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Mute findings that are known.")


def parse_day(text: str) -> datetime.date:
    """A day, as `2026-12-31`. Raises typer.BadParameter."""
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no day: write it as 2026-12-31") from None


def parse_narrowing(text: str) -> str:
    """One of NARROWINGS. Raises typer.BadParameter."""
    if text not in NARROWINGS:
        raise typer.BadParameter(unknown("narrowing", [text], NARROWINGS))
    return text


def _narrowed(what: str | None, file: Path | None) -> dict[str, str]:
    """The key of an entry that narrows it to what the file of a finding shows. Raises typer.BadParameter."""
    from harness.repro import read_any

    if what is None:
        return {}
    if file is None:
        raise typer.BadParameter("--narrow: the folder does not have the file of this finding")
    _, repro = read_any(file)
    if what == "case":
        return {"sha256": Path(repro.file_name).stem[-DIGITS_OF_NAMES:]}
    if not repro.evidence.places:
        raise typer.BadParameter(f"--narrow line: {file} names no line of the code under test")
    place = repro.evidence.places[0]
    return {"line": f"{place.file}:{place.line}"}


@app.command("add")
def add(
    folder: Annotated[Path, typer.Argument(help="The folder of a campaign that has the finding.")],
    reason: Annotated[str, typer.Option("--reason", help="Why it does not have to fail a run.")],
    signature: Annotated[
        str | None, typer.Option("--signature", help="Which finding. [default: the only one of the folder]")
    ] = None,
    link: Annotated[str | None, typer.Option("--link", help="Where to read on.")] = None,
    expires: Annotated[
        Any,
        option("--expires", parser=parse_day, metavar="DATE", help="The last day on which it is muted: 2026-12-31."),
    ] = None,
    narrow: Annotated[
        Any,
        option(
            "--narrow",
            parser=parse_narrowing,
            metavar="WHAT",
            help="Mute only what goes back to the same line (line), or has the same smallest case (case).",
        ),
    ] = None,
    file: Annotated[Path, typer.Option("--to", metavar="FILE", help="The file of mutes.")] = Path("known.toml"),
) -> None:
    """Mute a finding of a campaign: write an entry, with the situation in which it shows.

    With the situation, a run can say that the finding no longer occurs. Exit status: 0, or 2 where nothing was written.
    """
    from harness.campaign.mute import Mute
    from harness.campaign.mutes import add_mute, checked, in_toml
    from harness.campaign.past import read_past

    found = read_past(folder).findings
    if not found:
        raise typer.BadParameter(f"'{folder}' has no finding")
    names = list(dict.fromkeys(one.signature for one in found))
    if signature is None and len(found) > 1:
        raise typer.BadParameter(f"'{folder}' has several findings, name one with --signature: {', '.join(names)}")
    chosen = [one for one in found if signature in (None, one.signature, one.name)]
    if not chosen:
        raise typer.BadParameter(unknown("signature", [str(signature)], names))
    if len(chosen) > 1:
        raise typer.BadParameter(
            f"several findings have this signature, name one: {', '.join(repr(one.name) for one in chosen)}"
        )
    one = chosen[0]
    situation = one.situation if narrow is None else None
    mute = checked(
        Mute(
            signature=one.signature,
            issue=UNSET if one.issue is None else one.issue,
            **_narrowed(narrow, one.file),
            reason=reason,
            link=UNSET if link is None else link,
            expires=UNSET if expires is None else expires,
            regimes=UNSET if situation is None or situation.operation is None else list(situation.regimes),
            one_in=UNSET if situation is None else situation.one_in,
            drawn_as=UNSET if situation is None or situation.drawn_as is None else situation.drawn_as,
        )
    )
    add_mute(file, mute)
    if situation is None:
        announce("in which cases this shows is not known, so no run will say that it no longer occurs")
    width = _how_wide(mute)
    if width:
        announce(width)
    print(f"added to {file}:\n{in_toml(mute)}", end="")


def _how_wide(mute: Mute) -> str:
    """What a mute covers in addition to the finding that it was made for; empty if that is its case alone."""
    if mute.sha256 is not UNSET:
        return ""
    name = f"{mute.signature}{'' if mute.issue is UNSET else f' [{mute.issue}]'}"
    where, narrower = "", "--narrow line or --narrow case covers"
    if mute.line is not UNSET:
        where, narrower = f" and that go back to {mute.line}", "--narrow case covers"
    return f"this mutes all findings that are named {name}{where}, those of another fault too: {narrower} less"

"""`harness diff`: what one campaign found that an earlier one had not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from harness.cli.options import JsonOption, announce
from harness.text import counted


def diff(
    earlier: Annotated[Path, typer.Argument(help="The folder of a campaign.")],
    later: Annotated[Path, typer.Argument(help="The folder of a later one.")],
    json: JsonOption = False,
) -> None:
    """Compare the findings of two campaigns: what is new, what both have, and what is gone.

    A finding is gone where enough cases were judged among which it would have shown; else it was not looked at. Nothing
    is run, and nothing is written. Exit status: 0 nothing is new, 1 something is, 2 a folder cannot be read."""
    from harness.campaign.comparison import compare
    from harness.campaign.folder import CampaignFolder
    from harness.campaign.history import read_history
    from harness.campaign.past import read_past
    from harness.exit_status import FINDINGS, NOTHING_FOUND
    from harness.reports.terminal import print_lines
    from harness.subject.standing import Standing

    before, after = read_past(earlier), read_past(later)
    for text in (*before.notices, *after.notices):
        announce(text)
    history = read_history(CampaignFolder(earlier).history_file)
    keys = [one.key for one in after.findings]
    found = compare(before, before.findings, keys, after.journals, history, complete=not after.notices)
    names = [one.name for one in after.findings]
    status = FINDINGS if found.new else NOTHING_FOUND
    if json:
        print(msgspec.json.encode({"findings": names, "baseline": found, "exit_status": status}).decode())
    else:
        print_lines(Standing(baseline=found).lines(names))
        print(f"{counted(len(found.new), 'new finding')}, {len(found.still)} still there, {len(found.gone)} gone")
    sys.exit(status)

"""Results that a campaign folder keeps: what came of its campaigns, to make reports of when they are long over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.campaign.earlier import EARLIER
from harness.campaign.folder import CampaignFolder, EndingFile, NoEnding
from harness.reports.written.result import Result, result_of_ending
from harness.subject.summary import Ending

NEEDED = {
    "seed": int,
    "exit_status": int,
    "ended_early": str | None,
    "harness_failures": int,
    "whole_seconds": int | float,
    "missing": list,
    "findings": list,
    "faults": list,
}
"""What reports rely on in every summary."""


def results_in(folder: Path) -> list[Result]:
    """The results of the campaigns in a folder, or in its folders of one target each. Paths of findings are those of
    this folder, wherever it is now. Raises NoEnding."""
    results = list(_results(folder))
    if not results and folder.is_dir():
        for one in sorted(folder.iterdir()):
            if one.is_dir() and not one.name.startswith(f"{EARLIER}."):
                results += _results(one)
    if results:
        return results
    if not folder.is_dir():
        raise NoEnding(f"'{folder}' is no folder")
    how = f"harness run --resume {folder} --budget 0 ends one that was stopped"
    raise NoEnding(f"'{folder}' holds no campaign that has ended: {how}")


def _results(folder: Path) -> Iterator[Result]:
    for kept in CampaignFolder(folder).endings():
        summary = kept.ending.summary
        for name, kind in NEEDED.items():
            if not isinstance(summary.get(name), kind):
                raise NoEnding(f"a campaign in '{folder}' has an ending without {name}: its file is damaged")
        yield result_of_ending(_moved(kept, folder))


def _moved(kept: EndingFile, folder: Path) -> Ending:
    """The same with the files of its findings in `folder`, as far as they were in the folder of the campaign."""
    ending = kept.ending
    findings = [_finding(finding, kept.folder, folder) for finding in ending.summary["findings"]]
    return Ending(
        target=ending.target,
        noun=ending.noun,
        count=ending.count,
        answer=ending.answer,
        summary={**ending.summary, "findings": findings},
    )


def _finding(finding: Mapping[str, Any], was: str, folder: Path) -> Mapping[str, Any]:
    repro = finding["repro"]
    if repro is None or not Path(repro).is_relative_to(was):
        return finding
    return {**finding, "repro": str(folder / Path(repro).relative_to(was))}

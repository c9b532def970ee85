"""Results that a campaign folder keeps: what came of its campaigns, to make reports of when they are long over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from harness.campaign.earlier import EARLIER
from harness.campaign.folder import CampaignFolder, EndingFile, NoEnding
from harness.check.outcome import CodePlace, Diagnosis
from harness.reports.written.result import Result, result_of_ending
from harness.subject.faults import Fault
from harness.subject.registry import subject_classes
from harness.subject.summary import Ending
from harness.text import reason


class _Finding(msgspec.Struct):
    signature: str
    summary: str
    repro: str | None
    issue: str | None
    regression: bool = False
    diagnosis: Diagnosis | None = None
    places: list[CodePlace] = []
    settings: list[str] | None = None


class _Needed(msgspec.Struct):
    """What reports rely on in every summary; it may have more."""

    target: str
    seed: int
    exit_status: int
    ended_early: str | None
    harness_failures: int
    whole_seconds: float
    missing: list[str]
    findings: list[_Finding]
    faults: list[Fault]


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
    for subject, kept in CampaignFolder(folder).endings():
        _require_whole(subject, kept.ending.summary, folder)
        yield result_of_ending(_moved(kept, folder))


def _require_whole(name: str, summary: dict[str, Any], folder: Path) -> None:
    """Refuse a summary that no campaign of the subject `name` writes: a file that somebody changed."""
    try:
        needed = msgspec.convert(summary, _Needed)
        for subject in subject_classes():
            if subject.name == name and subject.summary_type is not None:
                msgspec.convert(summary, subject.summary_type)
    except msgspec.ValidationError as error:
        raise NoEnding(f"an ending of a campaign in '{folder}' is damaged: {reason(error)}") from error
    why = ""
    if any(not 0 <= number < len(needed.findings) for fault in needed.faults for number in fault.findings):
        why = "it groups findings that it does not have"
    elif not all(fault.findings for fault in needed.faults):
        why = "a fault has no finding"
    elif any(finding.signature.count("/") < 4 for finding in needed.findings):
        why = "a finding has no name"
    if why:
        raise NoEnding(f"an ending of a campaign in '{folder}' is damaged: {why}")


def _moved(kept: EndingFile, folder: Path) -> Ending:
    """The same with the files of its findings in `folder`. Raises NoEnding if they were elsewhere than in the folder of
    the campaign: reading a result opens no other files."""
    ending = kept.ending
    for finding in ending.summary["findings"]:
        repro = finding["repro"]
        if repro is not None and not _is_within(Path(repro), Path(kept.folder)):
            raise NoEnding(
                f"an ending of a campaign in '{folder}' is damaged: the file of a finding is not in its folder"
            )
    findings = [_finding(finding, kept.folder, folder) for finding in ending.summary["findings"]]
    return Ending(
        target=ending.target,
        noun=ending.noun,
        count=ending.count,
        answer=ending.answer,
        summary={**ending.summary, "findings": findings},
    )


def _is_within(file: Path, folder: Path) -> bool:
    return file.is_relative_to(folder) and ".." not in file.relative_to(folder).parts


def _finding(finding: Mapping[str, Any], was: str, folder: Path) -> Mapping[str, Any]:
    repro = finding["repro"]
    if repro is None:
        return finding
    return {**finding, "repro": str(folder / Path(repro).relative_to(was))}

"""What an earlier campaign left in a folder is moved aside by the next one, which must not seem to have found it.

Journal, configuration and findings move together, into a folder `earlier.1`, `earlier.2`, ... there, where `--resume`
continues it."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterable
from pathlib import Path

from harness.campaign.folder import AS_DRAWN, MET, CampaignFolder
from harness.campaign.harness_failures import FAILURES
from harness.campaign.journal import locked
from harness.files import NotSaved, require_regular
from harness.subject.registry import AnySubject

EARLIER = "earlier"
"""The name of folders of earlier campaigns, followed by a number."""

AnyClass = AnySubject | type[AnySubject]


def move_aside(home: Path, subjects: Iterable[AnyClass]) -> Path | None:
    """Move journals and files of campaigns of these subjects, directly in `home`, to a folder there. Returns that
    folder; None if there was nothing.

    Raises NotSaved, also while another campaign writes one of the journals, or OSError if one of them is not a regular
    file.
    """
    subjects = list(subjects)
    journals = [path for path in (home / subject.journal for subject in subjects) if os.path.lexists(path)]
    for journal in journals:
        require_regular(journal)
    # Journals go last: a kill in between leaves a campaign that can be resumed, or moved again.
    left = [path for subject in subjects for path in _files(home, subject)] + journals
    left = left and [*CampaignFolder(home).files, *left]
    if not left:
        return None
    try:
        with contextlib.ExitStack() as stack:
            for journal in journals:
                stack.enter_context(locked(journal))
            return _move(home, left)
    except OSError as error:
        raise NotSaved("what an earlier campaign left", error) from error


def _files(home: Path, subject: AnyClass) -> list[Path]:
    folders = ("", f"{AS_DRAWN}/", f"{MET}/")
    patterns = [f"{folder}{name}" for folder in folders for name in subject.file_patterns]
    patterns.append(f"{FAILURES}/*-{subject.noun}-*")
    return [path for pattern in patterns for path in sorted(home.glob(pattern))]


def _move(home: Path, left: Iterable[Path]) -> Path:
    numbered = (home / f"{EARLIER}.{number}" for number in itertools.count(1))
    folder = next(path for path in numbered if not os.path.lexists(path))  # a dangling link also takes the name
    folder.mkdir()
    for path in dict.fromkeys(left):
        there = folder / path.relative_to(home)
        there.parent.mkdir(exist_ok=True)
        path.rename(there)
    return folder


def moved(home: Path, folder: Path) -> str:
    """What a run says about it."""
    return f"what an earlier campaign left in '{home}' is now in '{folder}'"

"""A campaign folder is what `--out` names: findings, journals, and in `campaign/` what the campaign itself needs.

There are its configuration (the options of its command), its statistics (`stats.json`), the history of its findings,
what workers said, how it ended, and a lock. They have a folder of their own so that every `*.json` directly in a
campaign folder is a finding."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

import filelock
import msgspec

from harness import __version__
from harness.files import NotSaved, replace_file, require_regular
from harness.refusal import Refusal
from harness.subject.summary import Ending
from harness.text import reason

OWN = "campaign"
"""The subfolder of a campaign folder for files that are no findings."""
AS_DRAWN = "as-drawn"
"""The subfolder for findings as they were first seen."""
MET = "met-while-shrinking"
"""The subfolder for findings that only smaller variants of others showed."""
CONFIGURATION, STATS, HISTORY, LOCK = "configuration.json", "stats.json", "history.json", "lock"
REMEMBERED = ".remembered"
ENDING = ".ending.json"
FORMAT = 1
ENDING_FORMAT = 1

Kept = dict[str, str | bool]
Options = Mapping[str, str | bool]
"""Options of a command, by the names of its parameters: the words as they were written, or true for a flag."""


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """The options that a campaign was started with, without those that only say where it writes and what it prints."""

    harness_campaign: int = FORMAT
    harness_version: str = __version__
    options: Kept


class EndingFile(msgspec.Struct, frozen=True, kw_only=True):
    """How a campaign ended, and when, for reports that are made later. `folder` is the folder as its command had it."""

    harness_ending: int = ENDING_FORMAT
    folder: str
    at: str
    ending: Ending


class NoEnding(Refusal):
    """A folder from which no report can be made; the message is one line that says why."""


class NoConfiguration(Refusal):
    """A folder that cannot be resumed by its name alone; the message is one line that says why."""


class InUse(Refusal):
    """A folder that another campaign is writing in."""


class CampaignFolder:
    """The folder `path`, which need not exist."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.configuration_file, self.stats_file = path / OWN / CONFIGURATION, path / OWN / STATS
        self.history_file = path / OWN / HISTORY
        self._lock_file = path / OWN / LOCK

    @property
    def files(self) -> list[Path]:
        """Its own files that are there and belong to one campaign."""
        several = [sorted((self.path / OWN).glob(f"*{name}")) for name in (REMEMBERED, ENDING)]
        written = (self.configuration_file, self.stats_file, self.history_file, *chain(*several))
        return [file for file in written if os.path.lexists(file)]

    def remembered_file(self, subject: str) -> Path:
        """Where campaigns of a subject keep what workers said at the end of each part, a line of JSON for each."""
        return self.path / OWN / f"{subject}{REMEMBERED}"

    def read(self) -> Configuration:
        """The configuration. Raises NoConfiguration."""
        file = self.configuration_file
        try:
            require_regular(file)
            text = file.read_bytes()
        except FileNotFoundError:
            how = "is it a campaign folder? An older one is resumed with the options of its run, --out and --resume"
            raise NoConfiguration(f"there is no {file}: {how}") from None
        except OSError as error:
            raise NoConfiguration(f"{file}: {error.strerror or error}") from error
        try:
            number = msgspec.json.decode(text, type=_Head).harness_campaign
            if number != FORMAT:
                why = f"it has the number {number}, and this version ({__version__}) reads {FORMAT}"
                raise NoConfiguration(f"{file} is of another version of the harness: {why}")
            return msgspec.json.decode(text, type=Configuration)
        except (msgspec.DecodeError, RecursionError) as error:
            raise self.damaged(reason(error)) from error

    def damaged(self, why: str) -> NoConfiguration:
        """The refusal of a configuration that cannot be read."""
        how = "resume with the options of its run, --out and --resume"
        return NoConfiguration(f"{self.configuration_file} is damaged: {how} ({why})")

    def write(self, options: Options) -> None:
        """Write the configuration. Raises NotSaved."""
        text = msgspec.json.format(msgspec.json.encode(Configuration(options=dict(options))))
        try:
            replace_file(self.configuration_file, text + b"\n", to_last=True)
        except OSError as error:
            raise NotSaved("the configuration of this campaign", error) from error

    def write_ending(self, subject: str, ending: Ending, at: str) -> None:
        """Write how the campaign of a subject ended. Raises OSError."""
        text = msgspec.json.encode(EndingFile(folder=str(self.path), at=at, ending=ending))
        replace_file(self._ending_file(subject), text + b"\n", to_last=True)

    def forget_ending(self, subject: str) -> None:
        """The campaign of a subject continues: how an earlier part ended does not hold any more. Raises OSError."""
        self._ending_file(subject).unlink(missing_ok=True)

    def endings(self) -> list[tuple[str, EndingFile]]:
        """How campaigns here ended, in that order, each with the name of its subject. Raises NoEnding for a file that
        cannot be read."""
        files = sorted((self.path / OWN).glob(f"*{ENDING}"))
        found = [(file.name.removesuffix(ENDING), _read_ending(file)) for file in files]
        return sorted(found, key=lambda one: one[1].at)

    def _ending_file(self, subject: str) -> Path:
        return self.path / OWN / f"{subject}{ENDING}"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other campaigns out. The lock ends with the process, in any case.

        Raises InUse while another campaign has it, and NotSaved."""
        lock = filelock.FileLock(self._lock_file)
        try:
            self._lock_file.parent.mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=0)
        except filelock.Timeout:
            raise InUse(
                f"another campaign is writing in '{self.path}': wait for its end, or give another --out"
            ) from None
        except OSError as error:
            raise NotSaved("the lock of this campaign", error) from error
        try:
            yield
        finally:
            lock.release()

    def require_unused(self) -> None:
        """Raise InUse while another campaign writes there. Nothing is made where there is no folder yet."""
        if self._lock_file.exists():
            with self.locked():
                return


def _read_ending(file: Path) -> EndingFile:
    again = f"harness run --resume {file.parent.parent} --budget 0 writes it again"
    try:
        require_regular(file)
        text = file.read_bytes()
        number = msgspec.json.decode(text, type=_EndingHead).harness_ending
        if number != ENDING_FORMAT:
            why = f"it has the number {number}, and this version ({__version__}) reads {ENDING_FORMAT}"
            raise NoEnding(f"{file} is of another version of the harness: {why}; {again}")
        return msgspec.json.decode(text, type=EndingFile)
    except OSError as error:
        raise NoEnding(f"{file}: {error.strerror or error}") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise NoEnding(f"{file} is damaged: {again} ({reason(error)})") from error


class _EndingHead(msgspec.Struct):
    harness_ending: int


class _Head(msgspec.Struct):
    harness_campaign: int


def in_use(path: Path) -> OSError:
    """The error that another campaign writes in a folder, or a file of it."""
    return OSError(errno.EWOULDBLOCK, "another campaign is writing here: give another --out", str(path))

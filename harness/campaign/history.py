"""The history of findings says when and where each was seen first and last, over campaigns that follow each other.

Each campaign writes `history.json` in its folder: what its `--baseline` had, and what it found itself. So the newest
folder of a chain knows them all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from harness.campaign.past import FindingKey
from harness.files import replace_file, require_regular
from harness.refusal import Refusal
from harness.text import reason

FORMAT = 1


class Seen(msgspec.Struct, frozen=True):
    """When a finding was seen (UTC), in which target, the version of its base release (None: it is a release, or has
    none), and with which seed."""

    when: str
    target: str
    base: str | None
    seed: int

    @property
    def where(self) -> str:
        """The target and its base release."""
        return self.target if self.base is None else f"{self.target} (from {self.base})"


class FindingHistory(msgspec.Struct, frozen=True):
    """When one finding was seen first and last."""

    subject: str
    signature: str
    issue: str | None
    first: Seen
    last: Seen

    @property
    def key(self) -> FindingKey:
        return self.subject, self.signature, self.issue


class _File(msgspec.Struct, frozen=True):
    harness_history: int
    findings: list[FindingHistory]


class DamagedHistory(Refusal):
    """A history that cannot be read; the message is one line that says why."""


def read_history(file: Path) -> dict[FindingKey, FindingHistory]:
    """The history by finding; empty if there is no file. Raises DamagedHistory."""
    try:
        require_regular(file)
        read = msgspec.json.decode(file.read_bytes(), type=_File)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise DamagedHistory(f"{file}: {error.strerror or error}") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise DamagedHistory(f"{file} is damaged: {reason(error)}") from error
    if read.harness_history != FORMAT:
        raise DamagedHistory(f"{file} has the number {read.harness_history}, and this version reads {FORMAT}")
    return {one.key: one for one in read.findings}


def write_history(
    file: Path, before: Mapping[FindingKey, FindingHistory], found: Iterable[FindingKey], now: Seen
) -> None:
    """Write the history of what was known before and of what was found now. Raises OSError."""
    rows = dict(before)
    for key in found:
        rows[key] = FindingHistory(*key, rows[key].first if key in rows else now, now)
    if rows:
        text = msgspec.json.encode(_File(FORMAT, list(rows.values())))
        replace_file(file, msgspec.json.format(text) + b"\n")

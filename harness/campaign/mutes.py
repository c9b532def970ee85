"""A file of mutes is `known.toml`: a list of the findings that do not fail a run.

It is written by people, or by `harness known add`, and read whole before a run starts."""

from __future__ import annotations

import datetime
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from harness.campaign.mute import Mute
from harness.files import replace_file, require_regular, text_of
from harness.issues.registry import KNOWN_ISSUES, TOGETHER, current_name
from harness.refusal import Refusal
from harness.subject.registry import subject_classes
from harness.suggestions import unknown
from harness.text import reason

NARROWING = ("line", "sha256")
SITUATION = ("regimes", "one_in", "drawn_as")
"""Keys that say in which cases a finding shows. They are known of a signature, not of some of its findings: so an entry
has either these or those that narrow it."""

NEW_ENTRY = "\n\n"
"""What separates an entry from what is before it."""


class InvalidMutes(Refusal):
    """A file that is no list of mutes; the message is one line that says where it is wrong."""


def read_mutes(file: Path) -> list[Mute]:
    """The entries of a file, in order. Raises InvalidMutes."""
    try:
        require_regular(file)
        text = text_of(file).decode()
        content = tomllib.loads(text)
    except OSError as error:
        raise InvalidMutes(f"{file}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:  # a number with thousands of digits is no TOMLDecodeError
        raise InvalidMutes(f"{file}: no TOML: {reason(error)}") from error
    rows = content.pop("finding", [])
    if content:
        raise InvalidMutes(f"{file}: {unknown('key', content, ['finding'])}: each entry is a [[finding]]")
    if not isinstance(rows, list):
        raise InvalidMutes(f"{file}: finding: each entry is a [[finding]]")
    lines = _lines(text, len(rows))
    mutes: list[Mute] = []
    for number, row in enumerate(rows, 1):
        place = f"{file}{lines.get(number, '')}: entry {number}"
        mute = _mute(row, place)
        for earlier, one in enumerate(mutes, 1):
            if one.covers_what == mute.covers_what:
                raise InvalidMutes(f"{place} covers the same as entry {earlier}: {mute.name}")
        mutes.append(mute)
    return mutes


def _lines(text: str, entries: int) -> dict[int, str]:
    """The lines on which entries begin, as messages name them; none where the file is written in another way."""
    lines = [n for n, line in enumerate(text.splitlines(), 1) if re.match(r"\s*\[\[\s*finding\s*\]\]", line)]
    return {number: f":{line}" for number, line in enumerate(lines, 1)} if len(lines) == entries else {}


def checked(mute: Mute) -> Mute:
    """An entry that was made in a program, if a file could hold it. Raises InvalidMutes."""
    row = {name: value for name in Mute.__struct_fields__ if (value := getattr(mute, name)) is not UNSET}
    return _mute(row, "the entry")


def _mute(row: Any, place: str) -> Mute:
    """Raises InvalidMutes."""
    known = Mute.__struct_fields__
    wrong = [name for name in row if name not in known] if isinstance(row, Mapping) else []
    if wrong:
        raise InvalidMutes(f"{place}: {unknown('key', wrong, known)}")
    try:
        mute = msgspec.convert(row, Mute)
    except msgspec.ValidationError as error:
        raise InvalidMutes(f"{place}: {reason(error)}") from error
    if mute.signature is UNSET and mute.issue is UNSET:
        raise InvalidMutes(f"{place}: it needs a signature or an issue")
    of_a_part = [name for name in NARROWING if getattr(mute, name) is not UNSET]
    of_all = [name for name in SITUATION if getattr(mute, name) is not UNSET]
    if of_a_part and of_all:
        raise InvalidMutes(f"{place}: {of_all[0]} is about all that has the signature, not with {of_a_part[0]}")
    if mute.issue is not UNSET:
        names = [str(one.name) for one in KNOWN_ISSUES]
        issues = [one for one in mute.issue.split(TOGETHER) if current_name(one) not in names]
        if issues:
            raise InvalidMutes(f"{place}: {unknown('issue', issues, names)}")
    if mute.regimes is not UNSET:
        regimes = sorted({name for one in subject_classes() for name in one.regimes})
        unheard = [name for name in mute.regimes if name not in regimes]
        if unheard:
            raise InvalidMutes(f"{place}: {unknown('regime', unheard, regimes)}")
        twice = [name for name, count in Counter(mute.regimes).items() if count > 1]
        if twice:
            raise InvalidMutes(f"{place}: the regime {twice[0]} is there twice")
    return mute


def add_mute(file: Path, mute: Mute) -> None:
    """Add an entry to a file, which need not exist; what is there stays as it is. Raises InvalidMutes if the file is
    invalid or would become so, OSError if it cannot be written."""
    there = file.exists()
    before = read_mutes(file) if there else []
    for number, one in enumerate(before, 1):
        if one.covers_what == mute.covers_what:
            raise InvalidMutes(f"{file}: entry {number} covers that already: {mute.name}")
    kept = text_of(file).decode().rstrip("\n") if there else ""
    replace_file(file, f"{kept}{kept and NEW_ENTRY}{in_toml(mute)}".encode(), to_last=True)


def in_toml(mute: Mute) -> str:
    """An entry as a file has it."""
    values = {name: getattr(mute, name) for name in Mute.__struct_fields__}
    lines = [f"{name} = {_value(value)}" for name, value in values.items() if value is not UNSET]
    return "\n".join(["[[finding]]", *lines, ""])


def _value(value: str | int | datetime.date | Iterable[str]) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int):
        return str(value)
    if isinstance(value, datetime.date):
        return value.isoformat()
    return f"[{', '.join(map(_value, value))}]"

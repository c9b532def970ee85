"""A profile is a named set of options of `harness run`, in a file: `[profile.nightly]` in `harness.toml`.

Its keys are the names of options without their dashes in front, and its values what is written after them."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import typer

from harness.files import require_regular, text_of
from harness.refusal import Refusal
from harness.suggestions import unknown
from harness.text import LONGEST_REASON, cut, reason

FILE = Path("harness.toml")
"""The file where a command runs."""

NOT_IN_PROFILES = ("help", "folder", "resume", "profile", "config")
"""Parameters that say what this one command does."""

Value = str | bool | list[str]
"""What a command line would have: words, true for a flag, or several of them where an option may be repeated."""


EXCLUSIVE = (("budget", "cases"), ("target", "targets"), ("fixes", "include_known"))
"""Parameters of which a command has one. A new one takes the place of the one before, whichever that is."""

READ_FIRST = {
    "known": "an empty file is a list without mutes",
    "baseline": "leave it out until there is an earlier campaign",
    "corpus": "leave it out until there is a file to replay",
}
"""Parameters that name what has to be there when a run starts, with what helps where it is not there yet."""


class InvalidProfiles(Refusal):
    """A file of profiles that is wrong, or that lacks one; the message is one line that says where."""


class Profile(msgspec.Struct, frozen=True):
    """A profile of a file, with its values by the names of parameters."""

    file: Path
    name: str
    values: dict[str, Value]

    @property
    def place(self) -> str:
        """Where its values come from."""
        return f"{self.file} [profile.{self.name}]"

    def require_paths(self, names: Collection[str]) -> None:
        """Raise InvalidProfiles if what one of these parameters names is not there: the first night may lack it."""
        for name, helps in READ_FIRST.items():
            value = self.values.get(name)
            if name in names and isinstance(value, str) and not _is_there(Path(value)):
                said = cut(repr(value), LONGEST_REASON)
                raise InvalidProfiles(f"{self.file}: [profile.{self.name}]: {name}: there is no {said}: {helps}")


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # such as a name that is too long for any file
        return False


def option_name(parameter: Any) -> str:
    """The name of an option as files have it: `fail-fast`."""
    return str(parameter.opts[0]).lstrip("-")


def is_of_its_type(parameter: Any, value: object) -> bool:
    """Whether a value may be given to an option as far as flags are concerned: true or false to a flag, and nothing of
    that to any other."""
    return isinstance(value, bool) == bool(getattr(parameter, "is_flag", False))


def read_profiles(file: Path) -> dict[str, dict[str, Any]]:
    """The profiles of a file by name, as they are written there. Raises InvalidProfiles."""
    try:
        require_regular(file)
        content = tomllib.loads(text_of(file).decode())
    except FileNotFoundError:
        raise InvalidProfiles(f"there is no {file} with profiles here: --config names another file") from None
    except OSError as error:
        raise InvalidProfiles(f"{file}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:  # a number with thousands of digits is no TOMLDecodeError
        raise InvalidProfiles(f"{file}: no TOML: {reason(error)}") from error
    profiles = content.pop("profile", {})
    if content:
        raise InvalidProfiles(f"{file}: {unknown('key', content, ['profile'])}: options are in a [profile.NAME]")
    if not isinstance(profiles, dict) or not all(isinstance(one, dict) for one in profiles.values()):
        raise InvalidProfiles(f"{file}: options are in a [profile.NAME]")
    return profiles


def profile_of(file: Path, name: str, parameters: Sequence[Any], context: Any) -> Profile:
    """A profile of a file for a command with these parameters. Raises InvalidProfiles."""
    profiles = read_profiles(file)
    if name not in profiles:
        raise InvalidProfiles(f"{file}: {unknown('profile', [name], profiles)}")
    known = {option_name(one): one for one in parameters if one.name not in NOT_IN_PROFILES}
    return Profile(file, name, _values(f"{file}: [profile.{name}]", profiles[name], known, context))


def _values(place: str, written: Mapping[str, Any], known: Mapping[str, Any], context: Any) -> dict[str, Value]:
    wrong = [key for key in written if key not in known]
    if wrong:
        raise InvalidProfiles(f"{place}: {unknown('option', wrong, known)}")
    values: dict[str, Value] = {}
    for key, value in written.items():
        parameter = known[key]
        values[parameter.name] = as_written = _as_written(f"{place}: {key}", parameter, value)
        try:
            parameter.process_value(context, as_written)
        except typer.BadParameter as error:  # what the option would refuse on a command line
            raise InvalidProfiles(f"{place}: {key}: {reason(error)}") from error
    for names in EXCLUSIVE:
        if values.keys() >= set(names):
            both = " and ".join(option_name(known_one) for known_one in known.values() if known_one.name in names)
            raise InvalidProfiles(f"{place}: {both} exclude each other: leave one out")
    return values


def _as_written(place: str, parameter: Any, value: object) -> Value:
    """A value as a command line has it."""
    if parameter.multiple:
        several: list[object] = value if isinstance(value, list) else [value]
        words = [one for one in several if isinstance(one, str)]
        if len(words) == len(several):
            return words
        raise InvalidProfiles(f"{place} is a text, or a list of texts")
    if not is_of_its_type(parameter, value):
        raise InvalidProfiles(f"{place} is {'true or false' if parameter.is_flag else 'no flag: give it a value'}")
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return str(value)
    raise InvalidProfiles(f"{place} is a text or a number, as after --{option_name(parameter)}")

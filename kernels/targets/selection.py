"""A selection is a list of targets in one line: `builtin,vllm>=0.28,<0.32,path:../vllm`.

An item with a version range represents every known release in that range, newest last, so that results read as a
history. Ranges are those of Python packages, including commas: a part that starts with a comparison belongs to the
previous item.
"""

from __future__ import annotations

import re

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from harness.kernels.targets.registry import parse
from harness.kernels.targets.vllm.known_releases import RELEASES
from harness.refusal import UnknownTarget

_RANGE = re.compile(r"vllm\s*(?P<range>(?:[<>!~]=?|==[^,]*\*).*)", re.DOTALL)
_EXACT = re.compile(r"vllm\s*===?\s*(?P<version>[^,<>=!~*]+)")


def select(text: str) -> tuple[str, ...]:
    """The targets of a selection, each once, in the order written; checked as far as possible without network access.

    A planted mutation after an item (`vllm>=0.30+lost-reset`) is planted in every target of the item. Raises
    UnknownTarget with one line.
    """
    found: dict[str, None] = {}
    for item in _items(text):
        name, plus, mutations = item.partition("+")
        for target in _expand(name.strip()):
            found[parse(f"{target}{plus}{mutations}").text] = None
    if not found:
        raise UnknownTarget("an empty list of targets; write for example 'vllm>=0.28'")
    return tuple(found)


def release_of(target: str) -> Version | None:
    """The release of vLLM that a target is, with or without planted mutations; None for any other text."""
    base = target.partition("+")[0]
    try:
        return Version(base.removeprefix("vllm==")) if base.startswith("vllm==") else None
    except InvalidVersion:
        return None


def _items(text: str) -> list[str]:
    items: list[str] = []
    for part in text.split(","):
        stripped = part.strip()
        if items and stripped[:1] in ("<", ">", "!", "~", "="):
            items[-1] += f",{stripped}"
        elif stripped:
            items.append(stripped)
    return items


def _expand(name: str) -> list[str]:
    exact = _EXACT.fullmatch(name)
    if exact is not None:
        return [f"vllm=={exact['version'].strip()}"]
    match = _RANGE.fullmatch(name)
    if match is None and not name.startswith(("vllm=", "vllm ")):
        return [name]
    text = match["range"] if match is not None else name.removeprefix("vllm").strip()
    try:
        specifiers = SpecifierSet(text)
    except InvalidSpecifier:
        raise UnknownTarget(f"{name!r} is not a range of releases; write for example vllm>=0.28,<0.32") from None
    matching = [f"vllm=={release}" for release in RELEASES if specifiers.contains(release)]
    if not matching:
        raise UnknownTarget(f"no known release of vllm is {text}; known are {RELEASES[0]} to {RELEASES[-1]}")
    return matching

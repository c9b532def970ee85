"""Texts use the usual word: none of those that docs/extending.md lists on the left of its table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "extending.md"
ROOMS = ("harness", "generators", "oracles", "kernels", "reports")
HEADER = "| not | but |"
FROZEN = ("nobody asked for it", '"nobody"', "writer: nobody", "`last writer: nobody`")
"""Words of evidence that files hold."""


def unusual() -> list[str]:
    """Words and phrases of the table."""
    rows = PAGE.read_text(encoding="utf-8").partition(HEADER)[2].partition("\n\n")[0].splitlines()[2:]
    return [word.strip() for row in rows if row.startswith("|") for word in row.split("|")[1].split(",")]


UNUSUAL = re.compile(rf"\b({'|'.join(map(re.escape, unusual()))})\b", re.IGNORECASE)


def texts() -> Iterator[Path]:
    for room in ROOMS:
        yield from (path for path in (ROOT / room).rglob("*.py") if not any(one.is_symlink() for one in path.parents))
    yield from (ROOT / room for room in ("README.md", "CHANGELOG.md"))
    yield from (ROOT / "docs").rglob("*.md")


def found(text: str) -> list[str]:
    for words in FROZEN:
        text = text.replace(words, "")
    return [match[0] for line in text.splitlines() for match in UNUSUAL.finditer(line)]


def test_the_usual_word_is_used() -> None:
    wrong = {
        f"{path.relative_to(ROOT)}:{number}": words
        for path in texts()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if not (path == PAGE and line.startswith("|")) and (words := found(line))
    }
    assert wrong == {}


@pytest.mark.parametrize("text", ["Told so", "what hangs on it", "no more, lest it fails"])
def test_an_unusual_word_is_noticed(text: str) -> None:
    assert found(text)


@pytest.mark.parametrize("text", ['holds "nobody" yet', "besides, it is folded", "the best of all", "blessed"])
def test_other_words_are_not(text: str) -> None:
    assert not found(text)

"""A section is a part of a case or a sequence in words: its title, and a line for each thing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Section(NamedTuple):
    """See the module."""

    title: str
    lines: Sequence[str]

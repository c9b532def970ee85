"""A form is one kind of file that a finding can be exported as."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.refusal import Refusal
from harness.repro import AnyRepro


class NotExportable(Refusal):
    """A finding, or a kind of file, that a form cannot show. The message says why."""


@dataclass(frozen=True)
class Request:
    """What is exported: the finding in a file called `file`, for `target`, the one that it was found on unless the user
    names another one.

    `swept` are rows of a sweep, target and answer, for a form that shows which releases are affected; `affected` is
    their range in a sentence.
    """

    file: str
    kind: str
    repro: AnyRepro
    target: str
    swept: Sequence[tuple[str, str]] = field(default=())
    affected: str = ""


class Form(abc.ABC):
    """One form. `name` is what `--as` takes, `ending` that of file names, and `kinds` are the kinds of repro files that
    it takes (`case`, `sequence`)."""

    name: str
    summary: str
    ending: str
    kinds: tuple[str, ...]
    sweeps: bool = False
    """Whether it shows the rows of a sweep."""

    @abc.abstractmethod
    def text(self, request: Request) -> str:
        """The whole file. Raises NotExportable, with one line."""

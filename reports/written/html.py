"""HTML: one file for people, which needs nothing else: no script, no network, and its pictures are in it.

Everything in it that comes from targets, files or messages is escaped by the template engine, and holds no control
character (`plain`).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib import resources

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from harness import __version__
from harness.reports.pictures.picture import Picture
from harness.reports.pictures.svg import STYLE, svg
from harness.reports.written.page import page_of
from harness.reports.written.result import Result, plain

TEMPLATE = "page.html"


def html(results: Sequence[Result]) -> str:
    """The page of all results."""
    text: str = _template().render(page=page_of(results), version=__version__, style=Markup(STYLE))
    return text


@functools.cache
def _template() -> Template:
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, finalize=_plain, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["svg"] = _svg
    text = (resources.files(__package__) / TEMPLATE).read_text(encoding="utf-8")
    return environment.from_string(text)


def _svg(picture: Picture) -> Markup:
    """A picture, whose texts its writer has escaped."""
    return Markup(svg(picture))


def _plain(value: object) -> object:
    """Texts without control characters; markup of our own as it is."""
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value

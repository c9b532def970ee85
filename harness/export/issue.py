"""`issue`: a finding as a bug report in the form that vLLM asks for, in Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from harness import __version__
from harness.export.form import Form, Request
from harness.export.issue_of_case import CasePage
from harness.export.issue_of_sequence import SequencePage
from harness.export.literals import file_name, in_markdown, words
from harness.export.permanent_links import REPOSITORY, Sources, version_of
from harness.kernels.targets.vllm.sources import cached_tree, release_tree
from harness.repro import Repro, SequenceRepro


class Issue(Form):
    """See the module."""

    name = "issue"
    summary = "a bug report in Markdown: what happens, to whom, with which command line, where, and how to see it"
    ending = ".md"
    kinds = ("case", "sequence")
    sweeps = True

    def text(self, request: Request) -> str:
        return "\n".join(_lines(request)) + "\n"


ISSUE = Issue()


def _lines(request: Request) -> Iterator[str]:
    repro = request.repro
    version = version_of(request.target)
    sources = None if version is None else Sources(version, cached_tree(version) or release_tree(version))
    assert isinstance(repro, Repro | SequenceRepro)
    page = CasePage(repro, sources) if isinstance(repro, Repro) else SequencePage(repro, sources)
    yield f"# [Bug]: {words(page.title)}"
    yield ""
    yield "### Your current environment"
    yield ""
    yield from page.environment(words(request.target))
    yield ""
    yield "### 🐛 Describe the bug"
    yield ""
    yield in_markdown(repro.evidence.summary)
    yield ""
    yield from page.happens()
    yield ""
    yield "**Who can meet it.** " + page.reach()
    yield ""
    yield "**Options.** " + page.options()
    yield ""
    yield "```sh"
    yield page.command()
    yield "```"
    yield ""
    yield page.about_command
    yield ""
    yield "**The case.**"
    yield ""
    yield from page.tables()
    yield ""
    yield "**Where in the code.**"
    yield ""
    links = list(page.links())
    yield from (f"- {link}" for link in links)
    if sources is None:
        which = "These are lines of" if links else "The finding names no line of"
        yield ""
        yield f"{which} `{words(request.target)}`, which is no release: there are no permanent links."
    elif not links:
        yield "The finding names no line."
    yield ""
    yield "**Affected releases.**"
    yield ""
    yield from _affected(request)
    yield ""
    yield "**How to see it.**"
    yield ""
    yield from page.steps(file_name(request.file))
    yield ""
    yield "### Before submitting a new issue..."
    yield ""
    yield f"- [ ] Make sure you already searched for [relevant issues]({REPOSITORY}/issues)."
    if page.known:
        yield ""
        yield f"It looks like a known one: {page.known}."
    yield ""
    yield f"Written by harness {words(__version__)}."


def _affected(request: Request) -> Iterator[str]:
    if not request.swept:
        yield f"Found on {in_markdown(request.repro.origin.target)}. No other release was tried (`--sweep` does that)."
        return
    if version_of(request.target) is None:
        name = words(request.target)
        yield f"`{name}` is no release, so no release has what it brought. They were asked whether they had it before."
        yield ""
    yield "| target | answer |"
    yield "|---|---|"
    yield from (f"| {in_markdown(target)} | {words(answer)} |" for target, answer in request.swept)
    if request.affected:
        yield ""
        yield words(request.affected)

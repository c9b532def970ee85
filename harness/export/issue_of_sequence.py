"""A bug report about a step sequence."""

from __future__ import annotations

from collections.abc import Iterator

from harness.case.production_defaults import settings_in_words
from harness.export.literals import in_markdown, plain, words
from harness.export.permanent_links import Sources
from harness.export.serve_command import of_sequence
from harness.export.unit_test import SHOWS, WHY_NOT_RUNNER, side_of
from harness.issues.registry import issues_of, lines_about
from harness.oracles.states.violation import KINDS
from harness.reports.shown_sequence import event_in_words
from harness.repro import SequenceRepro


class SequencePage:
    """The parts of the page. Texts of the repro file get in through `plain` and `in_markdown` alone."""

    def __init__(self, repro: SequenceRepro, sources: Sources | None) -> None:
        self._repro, self._sources = repro, sources

    @property
    def title(self) -> str:
        known = issues_of(self._repro.issue)
        if known:
            return "; ".join(issue.summary for issue in known)
        violation = self._repro.signature.violation
        return f"Mamba align mode, {self._repro.sequence.config.runner} runner: {KINDS.get(violation, violation)}"

    @property
    def known(self) -> str:
        return "; ".join(lines_about(self._repro.issue))

    about_command = (
        "Block size and number of blocks follow from the model and the GPU: they are small here so that boundaries "
        "are near, and the same happens with large ones."
    )

    def environment(self, target: str) -> Iterator[str]:
        found = in_markdown(self._repro.origin.target)
        yield f"- vLLM: `{target}`, its own scheduler, block managers and runner code (found on {found})"
        yield "- device: none; a block holds the name of the prefix whose state it is, so a wrong one shows at once"
        yield "- model: none; what it samples follows from the prefix"

    def happens(self) -> Iterator[str]:
        yield "```text"
        yield from (plain(detail) for detail in self._repro.evidence.details)
        yield "```"
        yield ""
        yield (
            "A block holds `request R up to N tokens` if its state stands after the first N tokens of that request; "
            "equal prefixes have one name."
        )

    def reach(self) -> str:
        return "Users of an engine can do this: the events below are all that happens."

    def options(self) -> str:
        settings = self._repro.settings
        if settings is None:
            return "Which of these settings differ from the defaults is not known."
        needed = words(settings_in_words(self._repro.sequence, settings))
        return f"It {needed}." if settings else f"It happens {needed}."

    def command(self) -> str:
        return of_sequence(self._repro.sequence.config)

    def tables(self) -> Iterator[str]:
        config = self._repro.sequence.config
        yield "| setting | value |"
        yield "|---|---|"
        yield from (f"| {name} | {getattr(config, name)} |" for name in config.__struct_fields__)
        yield ""
        yield "| | event |"
        yield "|---|---|"
        yield from (
            f"| {number} | {plain(event_in_words(event))} |" for number, event in enumerate(self._repro.sequence.events)
        )
        yield ""
        yield (
            "`36 of text 0` are the first 36 tokens of an endless text: equal starts are shared prefixes. `right` is "
            "how many drafts the model agrees with."
        )

    def links(self) -> Iterator[str]:
        if self._sources is None:
            return
        yield from self._sources.places([self._repro.evidence.summary, *self._repro.evidence.details])
        for issue in issues_of(self._repro.issue):
            for patched in issue.patches:
                file = patched.module.replace(".", "/") + ".py"
                link = self._sources.definition(file, patched.name)
                if link is not None:
                    yield f"what a fix of it changes: {link}"

    def steps(self, name: str) -> Iterator[str]:
        side = side_of(self._repro)
        if side == "runner":
            yield f"`harness replay {name}.json` runs the runner's own host code with these events. There is no script:"
            yield f"{WHY_NOT_RUNNER}."
            return
        yield f"`harness export {name}.json --as unit-test` writes a test with plain vLLM classes, `test_{name}.py`:"
        yield ""
        yield "```sh"
        yield f"VLLM_SOURCES=DIR python -m pytest test_{name}.py    # without the variable: the installed vLLM"
        yield "```"
        yield ""
        yield SHOWS[side == "scheduler"]

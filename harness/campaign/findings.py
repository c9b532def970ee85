"""The findings of a campaign: one for each signature, with the case that stands for it, saved before anything else.

A reachable case stands before one of the total domain, and the lower index before the higher. Findings whose minimal
forms have one signature are one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from harness import __version__
from harness.campaign.events import Finding, FindingFound, FindingShrunk
from harness.campaign.saving import save
from harness.case import Case
from harness.check.outcome import Outcome, Signature
from harness.engines.random import GENERATOR_VERSION
from harness.repro import Origin, Repro, ShrinkRecord, repro_name
from harness.shrink.shrinker import shrink

if TYPE_CHECKING:
    from harness.campaign.campaign import Settings

Judge = Callable[[Case], Outcome]


class _Found(msgspec.Struct):
    """The case that stands for a signature so far; `cases` failed with it."""

    index: int
    case: Case
    path: Path
    repro: Repro
    outcome: Outcome
    cases: int

    def precedes(self, other: _Found) -> bool:
        """Whether this one stands for a signature that both have."""
        return _rank(self.case, self.index) < _rank(other.case, other.index)


def _rank(case: Case, index: int) -> tuple[bool, int]:
    return case.domain != "reachable", index


class Findings:
    """Those of one campaign."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._found: dict[Signature, _Found] = {}

    def __len__(self) -> int:
        return len(self._found)

    def record(self, index: int, case: Case, outcome: Outcome) -> FindingFound | None:
        """Count a failed case, and save it if it stands for its signature; the event if that is new.

        Raises NotSaved.
        """
        signature = outcome.signature
        assert signature is not None
        known = self._found.get(signature)
        if known is not None and _rank(known.case, known.index) < _rank(case, index):
            known.cases += 1
            return None
        found = self._saved("as-drawn", index, case, outcome, None)
        self._found[signature] = found
        if known is None:
            return FindingFound(signature, found.repro, found.path)
        found.cases += known.cases
        if known.path != found.path:
            known.path.unlink(missing_ok=True)
        return None

    def shrink(self, judge_of: Callable[[Signature, int], Judge]) -> Iterator[FindingFound | FindingShrunk]:
        """Shrink each finding, save its minimal form, and go by that form's signature. Raises NotSaved.

        `judge_of` gives the judge for the candidates of a signature, first seen in the case with an index.
        """
        drawn, self._found = self._found, {}
        waiting = dict(drawn)  # what is not saved in its minimal form stays in the summary as it was drawn
        met: dict[Signature, tuple[int, Case, Outcome]] = {}
        try:
            for signature, found in sorted(drawn.items(), key=lambda item: item[1].index):
                shrunk = shrink(
                    found.case, found.outcome, judge_of(signature, found.index), self._settings.shrink_executions
                )
                record = ShrinkRecord(
                    executions=shrunk.executions, seconds=round(shrunk.seconds, 3), complete=shrunk.complete
                )
                minimal = self._saved("", found.index, shrunk.case, shrunk.outcome, record, found.cases)
                del waiting[signature]
                final = minimal.repro.signature
                stands = self._keep(final, minimal)
                yield FindingShrunk(final, stands.repro, stands.path, None if signature == final else signature)
                for case, outcome in shrunk.others:
                    if outcome.signature is not None and outcome.signature not in drawn:
                        met.setdefault(outcome.signature, (found.index, case, outcome))
        finally:
            for signature, found in waiting.items():
                self._keep(signature, found)
        for signature, (index, case, outcome) in met.items():
            if signature not in self._found:
                found = self._saved("met-while-shrinking", None, case, outcome, None, 0)
                found.index = index
                self._found[signature] = found
                yield FindingFound(signature, found.repro, found.path)

    def _keep(self, signature: Signature, found: _Found) -> _Found:
        """Of findings that are one, keep the case that stands for them, and its file; which that is."""
        known = self._found.get(signature)
        if known is None:
            self._found[signature] = found
            return found
        first, second = (found, known) if found.precedes(known) else (known, found)
        first.cases += second.cases
        if second.path != first.path and second.path.parent == first.path.parent:
            second.path.unlink(missing_ok=True)
        self._found[signature] = first
        return first

    def summary(self) -> list[Finding]:
        return [
            Finding(
                str(signature),
                found.repro.evidence.summary,
                found.case.domain,
                found.index,
                found.cases,
                str(found.path),
                None if found.repro.shrink is None else msgspec.structs.asdict(found.repro.shrink),
            )
            for signature, found in sorted(self._found.items(), key=lambda item: (item[1].index, str(item[0])))
        ]

    def _saved(
        self,
        folder: str,
        index: int | None,
        case: Case,
        outcome: Outcome,
        record: ShrinkRecord | None,
        cases: int = 1,
    ) -> _Found:
        failure = outcome.failure
        assert failure is not None
        assert failure.signature is not None
        assert failure.evidence is not None
        settings = self._settings
        repro = Repro(
            signature=failure.signature,
            evidence=failure.evidence,
            origin=Origin(
                target=settings.target,
                executor=settings.executor,
                harness_version=__version__,
                generator_version=GENERATOR_VERSION,
                engine=settings.engine,
                seed=settings.recipe.seed,
                index=index,
            ),
            shrink=record,
            case=case,
        )
        path = settings.out / folder / repro_name(repro)
        save(path, repro)
        return _Found(-1 if index is None else index, case, path, repro, outcome, cases)

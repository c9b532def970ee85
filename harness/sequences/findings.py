"""The findings of a sequence campaign: one for each signature and issue, and the sequence that stands for it.

The lowest index stands, and is saved as it was drawn before anything else happens. Which issue it is shows only when
findings are kept: each is then classified by the fix that takes it away, shrunk, and saved again. Those that are one
issue in their smallest forms are one finding.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from harness import __version__
from harness.campaign.saving import save
from harness.case.sequence import SequenceCase
from harness.check.outcome import Signature
from harness.check.worker_process import WorkerError
from harness.generators.sequences.events import SEQUENCE_GENERATOR_VERSION
from harness.reports.words import counted
from harness.repro import Origin, ShrinkRecord
from harness.repro.sequences import SequenceRepro, sequence_repro_name
from harness.sequences.classifying import classify, classify_again, same_finding
from harness.sequences.known import KNOWN, TOGETHER
from harness.sequences.process import LOST, SequenceProcess
from harness.sequences.result import RunResult
from harness.sequences.settings import SequenceSettings
from harness.sequences.shrinking import shrink_sequence
from harness.sequences.summary import SequenceFinding
from harness.sequences.verdicts import evidence_of, signature_of

Key = tuple[str, str | None]
"""Signature and issue."""

NOTHING: Key = ("", None)
"""The key of no violation."""

AS_DRAWN = "as-drawn"
"""The folder in that of a campaign for findings as they were first seen."""


class Found(msgspec.Struct):
    """What stands for a key of signature and issue: the lowest index, and how many sequences there are. `path` is its
    file as drawn, None if that could not be written. `classified`: False if the harness failed in that."""

    index: int
    case: SequenceCase
    result: RunResult
    sequences: int = 1
    path: Path | None = None
    classified: bool = True

    @property
    def is_loss(self) -> bool:
        """Whether the child was lost: each run of such a sequence costs a child, and for a hang the time limit."""
        return self.result.violation is not None and self.result.violation.kind.startswith(LOST)


class Findings:
    """Those of one campaign. `say` takes a line for each new one, `notice` those that are no results, `fail` keeps what
    the harness itself failed in and tells it."""

    def __init__(
        self,
        settings: SequenceSettings,
        say: Callable[[str], None],
        notice: Callable[[str], None],
        fail: Callable[[int, WorkerError, SequenceCase], str],
    ) -> None:
        self._settings, self._say, self._notice, self._fail = settings, say, notice, fail
        self._found: dict[Key, Found] = {}
        self._kept: dict[Key, SequenceFinding] = {}
        self._done: set[Key] = set()
        """Keys of what was found that are kept, perhaps under another one."""

    def __len__(self) -> int:
        return len(self._found)

    @property
    def violations(self) -> int:
        """How many sequences violated something."""
        return sum(found.sequences for found in self._found.values())

    def note(self, index: int, case: SequenceCase, result: RunResult) -> Key:
        """Take a result, and save it as drawn if it stands for its key; the key of its violation, NOTHING if it has
        none. Raises NotSaved."""
        if result.violation is None:
            return NOTHING
        signature = str(signature_of(result.violation))
        issue = None
        if not self._settings.controls.faults and not result.violation.kind.startswith(LOST):
            issue = self._likely(case)
        key: Key = (signature, issue)
        known = self._found.get(key)
        if known is None:
            found = self._found[key] = Found(index, case, result)
            self._say(f"sequence {index}: {result.violation.summary}")
            found.path = self._saved_as_drawn(found)
            self._say(f"  saved as drawn: {found.path}")
            return key
        known.sequences += 1
        if index < known.index:
            before = known.path
            known.index, known.case, known.result = index, case, result
            known.path = self._saved_as_drawn(known)
            if before not in (None, known.path):
                before.unlink(missing_ok=True)
        return key

    def _saved_as_drawn(self, found: Found) -> Path:
        """Raises NotSaved."""
        repro = make_repro(self._settings, found.case, found.result, found.index, None, None)
        path = self._settings.out / AS_DRAWN / sequence_repro_name(repro)
        save(path, repro)
        return path

    def _likely(self, case: SequenceCase) -> str | None:
        """Known issues whose fix is off and that the case can reach at all: told apart when findings are kept."""
        off = [issue.name for issue in KNOWN if issue.fix not in self._settings.controls.fixes and issue.reaches(case)]
        return TOGETHER.join(off) or None

    def count(self, key: Key, more: int) -> None:
        """So many more sequences, none with a lower index, have a key that is there."""
        self._found[key].sequences += more

    def keep(self, child: SequenceProcess) -> None:
        """Classify each finding by the fix that takes it away, one for each signature and issue; shrink and save."""
        if self._found:
            self._notice(f"looking for the known issues behind {counted(self.violations, 'violation')} ...")
        sorted_out: dict[tuple[str, str | None], Found] = {}
        for (signature, _), found in sorted(self._found.items(), key=lambda item: item[1].index):
            issue = None
            try:
                if not found.is_loss:
                    issue = classify(child, found.case, self._settings.controls, signature)
            except WorkerError as error:
                self._notice(
                    f"{signature} stays unclassified, and as drawn: {self._fail(found.index, error, found.case)}"
                )
                child.restart()
                found.classified = False
            earlier = sorted_out.setdefault((signature, issue), found)
            if earlier is not found:
                earlier.sequences += found.sequences
        self._found = sorted_out
        for number, (key, found) in enumerate(sorted_out.items(), 1):
            self._keep_one(child, key, found, f"{number} of {len(sorted_out)}")
            self._done.add(key)

    def _tell(self, finding: SequenceFinding) -> None:
        for line in finding.lines:
            self._say(line)

    def tell_rest(self) -> None:
        """Say what could not be kept: each that was kept has been said."""
        for finding in self._not_kept():
            self._tell(finding)

    def _keep_one(self, child: SequenceProcess, key: Key, found: Found, number: str) -> None:
        """Shrink, save and tell one finding, unless it is one with another that was kept. Raises NotSaved."""
        if self._is_known(key, found):
            return
        (signature, issue), case, result, record = key, found.case, found.result, None
        if self._settings.shrink and found.classified and not found.is_loss:
            self._notice(f"shrinking {number}: {_named(key)} ...")
            try:
                judge = same_finding(child, signature, issue, self._settings.controls)
                shrunk = shrink_sequence(case, judge)
                smaller = child.check(shrunk.case, self._settings.controls)
                issue = classify_again(child, shrunk.case, self._settings.controls, signature, issue)
            except WorkerError as error:
                self._notice(f"{signature} stays as drawn: {self._fail(found.index, error, case)}")
                child.restart()
            else:
                if smaller.violation is not None and str(signature_of(smaller.violation)) == signature:
                    case, result = shrunk.case, smaller
                    record = ShrinkRecord(
                        executions=shrunk.executions, seconds=round(shrunk.seconds, 3), complete=shrunk.complete
                    )
                else:
                    issue = key[1]
                    self._notice(f"{signature} stays as drawn: its smallest form did not give it a second time")
        if issue != key[1]:
            self._notice(f"{_named(key)} came down to {issue}")
            if self._is_known((signature, issue), found):
                return
        assert result.violation is not None
        repro = make_repro(self._settings, case, result, found.index, issue, record)
        path = self._settings.out / sequence_repro_name(repro)
        if self._settings.shrink and found.is_loss:
            self._notice(f"{signature} stays as drawn, for each run costs a process: harness shrink {path} goes on")
        save(path, repro)
        minimal = record is not None and record.complete
        kept = _finding(signature, issue, msgspec.structs.replace(found, case=case, result=result), path, minimal)
        self._kept[signature, issue] = kept
        self._tell(kept)

    def _is_known(self, key: Key, found: Found) -> bool:
        """Whether a finding with this key was kept, which then stands for this one too: its index is lower."""
        kept = self._kept.get(key)
        if kept is None:
            return False
        kept.sequences += found.sequences
        self._notice(f"{_named(key)} was found in {counted(found.sequences, 'more sequence')}: see {kept.repro}")
        return True

    def summary(self) -> list[SequenceFinding]:
        """What was kept, and after it what could not be."""
        return [*self._kept.values(), *self._not_kept()]

    def _not_kept(self) -> list[SequenceFinding]:
        rest = sorted(self._found.items(), key=lambda item: item[1].index)
        return [_finding(*key, found, found.path) for key, found in rest if key not in self._done]


def _named(key: Key) -> str:
    signature, issue = key
    return f"{signature} [{issue}]" if issue else signature


def _finding(
    signature: str, issue: str | None, found: Found, path: Path | None, minimal: bool = False
) -> SequenceFinding:
    assert found.result.violation is not None
    return SequenceFinding(
        signature,
        issue,
        found.result.violation.summary,
        found.index,
        found.sequences,
        len(found.case.events),
        None if path is None else str(path),
        minimal,
    )


def make_repro(
    settings: SequenceSettings,
    case: SequenceCase,
    result: RunResult,
    index: int | None,
    issue: str | None,
    record: ShrinkRecord | None,
) -> SequenceRepro:
    """The file that carries a finding."""
    assert result.violation is not None
    signature: Signature = signature_of(result.violation)
    return SequenceRepro(
        signature=signature,
        evidence=evidence_of(result.violation, result.trace),
        origin=Origin(
            target=settings.target,
            executor="symbolic" if settings.kernels is None else settings.kernels.executor,
            harness_version=__version__,
            generator_version=SEQUENCE_GENERATOR_VERSION,
            seed=settings.recipe.seed,
            index=index,
        ),
        fixes=settings.controls.fixes,
        faults=settings.controls.faults,
        issue=issue,
        kernels=None if settings.kernels is None else settings.kernels.target,
        shrink=record,
        sequence=case,
    )

"""The summary of a campaign of kernel cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from harness import __version__
from harness.check.outcome import CodePlace, Diagnosis
from harness.exit_status import FINDINGS, NOT_REACHED, NOTHING_FOUND
from harness.issues.kernel_issue import ANOTHER_CAUSE
from harness.kernels.targets.vllm.base_release import NOT_COMPARED, BaseRelease, how_to_have_one
from harness.kernels.targets.vllm.lost import Lost
from harness.subject.edits import EditCoverage, EditedLines, edits_in_words
from harness.subject.faults import SEVERAL, Fault, fault_lines, next_lines
from harness.subject.standing import Standing, answered
from harness.subject.summary import ComparedFinding, Line, sorting_took
from harness.text import counted

_OF_CASES = ("regime ", "operation ", "relation ")
"""How names of what cases have to reach begin, among what is missing."""


class Finding(msgspec.Struct, frozen=True):
    """One finding in the summary. `cases` is the number of cases that failed with this signature; `issue` names the
    known issue that it looks like; `regression`: one that the base release of the target does not have any more, and
    `doubt` says what its diagnosis has against that, in words.
    `diagnosis` names the deviations that reproduce it, `places` are the lines of code that it goes back to, and `edits`
    the edited lines of a checkout that its case ran: any of them may be the mistake."""

    signature: str
    summary: str
    domain: str
    first_case: int
    cases: int
    repro: str | None
    shrink: dict[str, float | int | bool] | None
    issue: str | None = None
    regression: bool = False
    diagnosis: Diagnosis | None = None
    places: list[CodePlace] = []
    edits: list[EditedLines] = []
    doubt: str = ""

    @property
    def line(self) -> str:
        """The finding in a line. No drawn case showed it if it has no cases, only a smaller variant of another one."""
        seen = f"shown by {counted(self.cases, 'case')}" if self.cases else "met while shrinking another"
        return f"{self.signature}{self.known} ({self.domain} domain, {seen}): {self.repro or 'not saved'}"

    @property
    def known(self) -> str:
        """The issue in brackets; empty if there is none. Nothing proves that an issue of kernels is the cause, so what
        looks like one of an older release is called no more than that."""
        if self.issue is None:
            return ""
        if self.doubt == ANOTHER_CAUSE:
            return f" [has the signature of {self.issue}, but {self.doubt}]"
        if self.doubt:
            return f" [may be a REGRESSION of {self.issue}: {self.doubt}]"
        return f" [looks like a REGRESSION of {self.issue}]" if self.regression else f" [{self.issue}]"

    @property
    def said(self) -> tuple[str, ...]:
        """What went wrong, and as if by what."""
        return (self.summary, *([] if self.diagnosis is None else [f"diagnosis: {self.diagnosis.sentence}"]))

    @property
    def explained(self) -> bool:
        """Whether a deviation reproduces it."""
        return self.diagnosis is not None and bool(self.diagnosis.deviations)


class LineCoverage(msgspec.Struct, frozen=True):
    """How many lines of one kernel function ran, out of those that its compiled variants have, and which did not."""

    file: str
    function: str
    executed: int
    lines: int
    missed: list[int]


class CaseSummary(msgspec.Struct, frozen=True):
    """The result of a campaign; the object that `harness run --json` prints (docs/json.md).

    `skips` says by operation and reason what the target lacks, the commonest first. `regimes` counts judged cases
    alone. `unjudged` are the regimes that cases were in, none of which was judged, with the commonest reason.
    `missing` is what was required and never judged. `lacking` are operations that were skipped in every case because
    the target lacks something, with its messages; if asked for by name, they are missing as well. `harness_failures`
    counts cases that the harness itself failed in; notices say where they are kept. In a resumed campaign,
    `in_this_part` of the `cases` were judged by this part, in `seconds`.
    """

    seed: int
    target: str
    executor: str
    engine: str
    domain: str
    cases: int
    cases_judged: int
    judged: dict[str, int]
    skipped: dict[str, int]
    skips: dict[str, int]
    launches: int
    in_this_part: int
    seconds: float
    whole_seconds: float
    cases_per_second: float
    regimes: dict[str, int]
    unjudged: dict[str, str]
    kernel_lines: list[LineCoverage]
    findings: list[Finding]
    exit_status: int
    missing: list[str]
    harness_failures: int
    lacking: dict[str, str]
    relations: dict[str, int]
    faults: list[Fault] = []
    """The findings grouped by what they share."""
    ended_early: str | None = None
    """Why no more cases were judged, if that was not requested."""
    base: BaseRelease | None = None
    """The base release of a target that is not a known release."""
    uncompared: bool = False
    """Whether no release was here to compare the target with, although it is not a known release."""
    lost: list[Lost] = []
    """Operations that the base release has and the target lacks."""
    edited: EditCoverage | None = None
    """How many lines of its edits a checkout ran."""
    standing: Standing | None = None
    """What the findings count for in the light of what was known before; None: each counts."""
    harness_version: str = __version__

    @property
    def count(self) -> int:
        return self.cases

    @property
    def noun(self) -> str:
        return "case"

    def compared(self) -> Sequence[ComparedFinding]:
        return [ComparedFinding(one.signature, one.domain, one.cases, one.repro) for one in self.findings]

    def overview(self) -> tuple[str, str]:
        skipped = ", ".join(f"{count} {reason}" for reason, count in self.skipped.items())
        more = f"; skipped {skipped}" if skipped else ""
        more += f"; has no {', '.join(self.lacking)}" if self.lacking else ""
        return f"{counted(sum(self.judged.values()), 'operation')} judged", more

    def lines(self, *, verbose: bool) -> Sequence[Line]:
        return list(self._lines(verbose))

    def _lines(self, verbose: bool) -> Iterator[Line]:
        judged = ", ".join(f"{count} {name}" for name, count in self.judged.items())
        yield Line(
            "",
            f"{self._cases_and_time}: judged {judged}; {counted(self.launches, 'launch', 'launches')}",
        )
        yield from sorting_took(self.seconds, self.whole_seconds)
        if self.ended_early is not None:
            yield Line("", f"ended early: {self.ended_early}", "warning")
        if any(self.relations.values()):
            asked = ", ".join(f"{count} {name}" for name, count in self.relations.items() if count)
            yield Line("", f"relations judged: {asked}")
        yield from self._coverage(verbose)
        if self.edited is not None and self.base is not None and self.base.changed:
            yield from self.edited.in_words(verbose=verbose)
        for reason, count in self.skipped.items():
            yield Line("skipped", f"{count}: {reason}", "warning")
        said = {f"{name}: {words}" for name, words in self.lacking.items()}  # below, once
        for words, count in self.skips.items():
            if words not in said:
                yield Line("", f"  {count} of {words}", "dim")
        edits = [edits_in_words(finding.edits) for finding in self.findings]
        texts = [finding.said for finding in self.findings]
        yield from fault_lines(self.faults, [finding.line for finding in self.findings], texts, edits)
        if self.standing is not None:
            yield from self.standing.lines([finding.signature for finding in self.findings])
        lost = {one.operation for one in self.lost}
        for name, words in self.lacking.items():
            if name not in lost:
                times = self.skips.get(f"{name}: {words}")
                in_all = f" ({counted(times, 'case')})" if times else ""
                yield Line("skipped", f"{name} altogether{in_all}: {words}", "warning")
        for one in self.lost:
            yield Line("LOST", str(one), "bad")
        missing = self.missing
        if self.findings:  # of operations that findings left no time for: that is one line
            never = [name.removeprefix("operation ") for name in missing if name.startswith("operation ")]
            if never:
                yield Line("missing", f"operations without a judged case: {', '.join(never)}", "warning")
            missing = [name for name in missing if not name.startswith("operation ")]
        for name in missing:
            why = self.unjudged.get(name.removeprefix("regime "))
            no_case = f": no {'case' if why is None else f'judged case ({why})'}"
            yield Line("missing", f"{name}{no_case if name.startswith(_OF_CASES) else ''}", "bad")
        if self.harness_failures:
            text = f"the harness itself failed in {counted(self.harness_failures, 'case')}: please report them"
            yield Line("not judged", text, "bad")
        if self.faults:
            first = self._next
            operation = first.signature.partition("/")[0]
            again = f"harness run -t {self.target} --ops {operation} --domain {first.domain} --fail-fast"
            yield from next_lines(first.repro, self.target, again)

    @property
    def _next(self) -> Finding:
        """The finding to look at first: the simplest that a deviation explains, else the simplest of the first
        fault."""
        simplest = [self.findings[number] for fault in self.faults for number in fault.findings]
        return next((finding for finding in simplest if finding.explained), simplest[0])

    @property
    def _size(self) -> str:
        """What the answer rests on: `276 cases; 6 of 117 regimes not reached`."""
        left_out = self.cases - self.cases_judged
        parts = [f"{counted(self.cases_judged, 'case')}{f' ({left_out} more not judged)' if left_out else ''}"]
        missed = sum(not count for count in self.regimes.values())
        if missed:
            parts.append(f"{missed} of {counted(len(self.regimes), 'regime')} not reached")
        if self.edited is not None and self.base is not None and self.base.changed and self.edited.unlooked:
            parts.append(self.edited.unlooked)
        return "; ".join(parts)

    @property
    def _cases_and_time(self) -> str:
        cases, time = counted(self.cases, "case"), f"{self.seconds:.1f} s"
        rate = f"{self.cases_per_second:g} a second"
        if self.in_this_part == self.cases:
            return f"{cases} in {time} ({rate})"
        part = f"{self.in_this_part} of them in this part ({time}, {rate})"
        return f"{cases}, {part if self.in_this_part else 'none of them in this part'}"

    def _coverage(self, verbose: bool) -> Iterator[Line]:
        """One line; with `verbose` also what was not reached."""
        missed = [name for name, count in self.regimes.items() if not count]
        parts = [f"{len(self.regimes) - len(missed)} of {counted(len(self.regimes), 'regime')}"]
        lines = sum(covered.lines for covered in self.kernel_lines)
        if lines:
            ran = sum(covered.executed for covered in self.kernel_lines)
            parts.append(f"{ran} of {counted(lines, 'compiled kernel line')}")
        hint = "" if verbose else " (--verbose names the others)"
        yield Line("", f"reached {', '.join(parts)}{hint}")
        if not verbose:
            return
        never = [name for name in missed if name not in self.unjudged]
        if never:
            yield Line("", f"  regimes not reached: {', '.join(never)}", "dim")
        for name in missed:
            if name in self.unjudged:
                yield Line("", f"  regime not judged: {name} ({self.unjudged[name]})", "dim")
        for covered in self.kernel_lines:
            rest = f"; not lines {', '.join(map(str, covered.missed))}" if covered.missed else ""
            ran_here = f"{covered.executed} of {counted(covered.lines, 'line')} ran"
            yield Line("", f"  kernel {covered.function} ({covered.file}): {ran_here}{rest}", "dim")

    @property
    def _lost(self) -> str:
        names = ", ".join(dict.fromkeys(one.operation for one in self.lost))
        return f"LOST {names}, which {self.base.name if self.base else 'its base release'} has"

    @property
    def _uncompared(self) -> str:
        return f"{NOT_COMPARED}. What helps: {how_to_have_one(self.target.partition('+')[0])}"

    def answer(self) -> Line | None:
        """None for a campaign that found nothing before something could not be written or run."""
        return answered(self._answer(), self.standing, len(self.findings), self.exit_status)

    def _answer(self) -> Line | None:
        """The same, as if nothing had been known before."""
        if self.findings:
            by_operation = Counter(finding.signature.partition("/")[0] for finding in self.findings)
            named = ", ".join(f"{count} of {name}" for name, count in by_operation.items())
            text = f"{counted(len(self.findings), 'finding')}: {named}"
            if 0 < len(self.faults) < len(self.findings):
                text += f"; {counted(len(self.faults), 'fault')} by what they share"
            known = {finding.issue for finding in self.findings if finding.issue is not None and not finding.regression}
            new = sum(finding.issue is None or finding.regression for finding in self.findings)
            if known:
                which = f"{new} like no known issue, the others" if new else "all"
                text += f"; {which} like known ones: {', '.join(sorted(known))}"
            if new > 1 and len(self.faults) != 1:
                text += f"; {SEVERAL}"
            if self.lost:
                text += f"; {self._lost}"
            if self.uncompared:
                text += f"; {NOT_COMPARED}"
            return Line("", text, "bad")
        if self.exit_status in (NOTHING_FOUND, FINDINGS):  # what was known before may make status 1 without a finding
            if self.uncompared:
                return Line("", f"nothing found in {self._size}; {self._uncompared}", "warning")
            return Line("", f"nothing found in {self._size}", "good")
        if self.harness_failures:
            return Line(
                "", "nothing found in what could be judged; the harness itself failed in the rest (status 4)", "bad"
            )
        if self.lost and self.exit_status == NOT_REACHED:
            return Line("", f"nothing found, but {self._lost} (status 3)", "bad")
        if self.missing and self.exit_status == NOT_REACHED:
            if not all(name.startswith(_OF_CASES) for name in self.missing):
                text = (
                    f"nothing found in {self._size}, but not all that was seen is here (status 3): see what is missing"
                )
                return Line("", text, "bad")
            lacking = {f"operation {name}" for name in self.lacking} | {f"regime {name}" for name in self.unjudged}
            why = "the target does not take it" if lacking.issuperset(self.missing) else "a longer run may reach it"
            if self.uncompared:
                why = "it may be lost" if why.startswith("the target") else f"{why}, or it is lost"
                why = f"{why}: {self._uncompared}"
            text = f"nothing found in {self._size}, but what is missing was not judged (status 3): {why}"
            return Line("", text, "bad")
        return None

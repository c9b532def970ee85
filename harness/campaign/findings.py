"""The findings of a campaign: one for each key, with the case that represents it, saved before anything else.

The subject's rank decides which case that is, for example that with the lowest index. When all cases are judged,
findings are sorted out: each is classified by the known issue behind it, if the subject has known issues, and shrunk.
Findings that result in the same key are merged."""

from __future__ import annotations

import contextlib
import hashlib
import shlex
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.campaign.events import Event, FindingFound, FindingKept, Notice
from harness.campaign.folder import AS_DRAWN, MET
from harness.campaign.settings import Settings
from harness.repro import AnyRepro, ShrinkRecord, save
from harness.shrink.driver import Judged, Plan, Shrunk, shrink
from harness.subject.subject import MOST_FAILING, MOST_IN_BLOCK, Kept, Key, Rank, Subject
from harness.text import counted
from harness.worker.losses import TimeUp, WorkerError
from harness.worker.process import WorkerProcess

Failing = tuple[Any, Any]
"""A case and its result."""

Fail = Callable[[int, WorkerError, Any, bool], str | None]
"""Keeps a case that the harness itself failed in, given its index and whether it is a smaller variant. Returns a line
that reports it, None if there were too many already."""

SHRINKING_SHARE = 0.8
"""Maximum share of a finding's time for making it smaller: then it is judged again, and explained."""

CANDIDATE_SECONDS = 5.0
"""How much longer the last candidate may take."""

TOO_MANY = "the harness failed too often to keep the case"


class Findings:
    """The findings of one campaign."""

    def __init__(self, subject: Subject[Any, Any], settings: Settings, fail: Fail) -> None:
        self._subject, self._settings, self._fail = subject, settings, fail
        self._found: dict[Key, Kept] = {}
        self._kept: dict[Key, Kept] = {}
        """Findings in their final form, and those that could not get one."""
        self._final: dict[Key, Key] = {}
        """The keys that findings were shrunk to."""
        self._until = float("inf")
        self._unfinished: set[int] = set()
        """The first cases of findings for which the time did not last."""

    def __len__(self) -> int:
        return len(self._found)

    @property
    def cases(self) -> int:
        """How many cases failed."""
        return sum(found.count for found in self._found.values())

    def record(self, index: int, case: Any, result: Any, key: Key) -> FindingFound | None:
        """Count a failed case, and save it as drawn if it represents its key. Returns the event if the key is new.

        Raises NotSaved.
        """
        subject = self._subject
        known, rank = self._found.get(key), subject.rank(case, index)
        failing = self._first_of(() if known is None else known.failing, [rank])
        if known is not None and self._rank(known) <= rank:
            known.count += 1
            known.failing = failing
            return None
        repro = subject.repro(case, result, index, None, None)
        if known is None:
            found = Kept(index, case, result, 1, None, repro, failing=failing)
            self._found[key] = found  # in the summary even if not saved
            path = self._place(key, repro)
            save(path, repro)
            found.path = path
            return FindingFound(subject.noun, key, repro, path, index)
        path = known.path or self._place(key, repro)
        save(path, repro)
        self._found[key] = Kept(index, case, result, known.count + 1, path, repro, failing=failing)
        return None

    def _place(self, key: Key, repro: AnyRepro) -> Path:
        """Where a finding is saved as drawn: one file, which was announced and stays, whichever case represents the
        key later."""
        digits = hashlib.sha256(str(key).encode()).hexdigest()[:8]
        return self._settings.out / AS_DRAWN / f"{self._subject.drawn_stem(repro)}-{digits}.json"

    def _first_of(self, ranks: Sequence[Rank], more: Sequence[Rank]) -> list[Rank]:
        """The lowest of all these ranks: MOST_IN_BLOCK of a block, whose cases have much in common, and MOST_FAILING in
        all. It makes no difference in which order ranks come."""
        in_block: Counter[int] = Counter()
        chosen = []
        for rank in sorted({*ranks, *more}):
            block = rank[1] // self._subject.block
            in_block[block] += 1
            if in_block[block] <= MOST_IN_BLOCK:
                chosen.append(rank)
        return chosen[:MOST_FAILING]

    def count(self, key: Key, more: Sequence[Rank]) -> None:
        """Count more cases of a known key, by their ranks, none lower than that of its case."""
        found = self._found[key]
        found.count += len(more)
        found.failing = self._first_of(found.failing, more)

    def _rank(self, found: Kept) -> tuple[int, int]:
        return self._subject.rank(found.case, found.index)

    def _represents(self, known: Kept, found: Kept) -> bool:
        """Whether the first of two findings with one key represents both. One that was not classified says nothing of
        known issues, so it does not represent one that was."""
        return (not known.classified, self._rank(known)) <= (not found.classified, self._rank(found))

    def _merged(self, known: Kept, found: Kept) -> Kept:
        """The one that represents two findings with one key, with the counts of both."""
        if known is found:
            return found
        first, second = (known, found) if self._represents(known, found) else (found, known)
        first.count += second.count
        first.failing = self._first_of(first.failing, second.failing)
        return first

    # Sorting out.

    def finish(self, worker: WorkerProcess, until: float = float("inf")) -> Iterator[Event]:
        """Classify findings, shrink them, and save their final forms, as far as the time lasts, which is over at
        `until` (`time.monotonic`): the others stay as they are. Raises NotSaved."""
        self._until = worker.until = until
        yield from self._finish(worker)
        if self._settings.shrink and self._is_limited:
            yield from self._explained_late(worker)
        if self._unfinished:
            how = f"harness run --resume {shlex.quote(str(self._settings.out))} --budget 0 continues"
            what = counted(len(self._unfinished), "finding")
            yield Notice(f"the budget was over before {what} had been looked into to the end: {how}")

    @property
    def _is_limited(self) -> bool:
        """Whether the time may be over too early: then all findings are made smaller before the first is explained."""
        return self._until < float("inf")

    def _finish(self, worker: WorkerProcess) -> Iterator[Event]:
        found = sorted(self._found.items(), key=lambda item: item[1].index)
        if self._subject.classifies:
            found = yield from self._classified(worker, found)
        elif not self._settings.shrink:
            yield from self._explained_as_drawn(worker, found)
            return
        waiting = dict(found)  # a finding that gets no final form stays in the summary as it was drawn
        met: dict[Key, tuple[Key, int, Failing]] = {}
        try:
            for number, (key, one) in enumerate(found, 1):
                left = max(0.0, self._until - time.monotonic()) / (len(found) - number + 1)
                others = yield from self._finish_one(worker, key, one, f"{number} of {len(found)}", left)
                del waiting[key]
                for case, result in others:
                    other = self._subject.key(case, result)
                    if other is not None and other not in self._found:
                        met.setdefault(other, (key, one.index, (case, result)))
        finally:
            for key, one in waiting.items():
                self._keep(key, one)
        new = [key for key in met if key not in self._kept]
        for key in new:  # in the summary even if not saved
            parent, index, (case, result) = met[key]
            repro = self._subject.repro(case, result, None, None, None)
            self._kept[key] = Kept(index, case, result, 0, None, repro, met=self._final.get(parent, parent))
        for key in new:
            kept = self._kept[key]
            path = self._settings.out / MET / kept.repro.file_name
            save(path, kept.repro)
            kept.path = path
            yield FindingFound(self._subject.noun, key, kept.repro, path, None)

    def leave_unsorted(self) -> None:
        """Keep findings as they are when a campaign is interrupted: which known issue is behind them was not looked
        for, if `finish` has not come so far."""
        if self._kept or not self._subject.classifies:
            return
        for key, one in self._found.items():
            one.classified = False
            self._keep(self._subject.key_of(key.signature, None), one)

    def _classified(
        self, worker: WorkerProcess, found: list[tuple[Key, Kept]]
    ) -> Generator[Event, None, list[tuple[Key, Kept]]]:
        """Look for the known issue behind each finding; those with one signature and issue are one."""
        if found:
            yield Notice(f"looking for the known issues behind {counted(self.cases, 'violation')} ...")
        sorted_out: dict[Key, Kept] = {}
        for key, one in found:
            signature, issue = key.signature, None
            try:
                if not self._subject.is_loss(one.result):
                    issue = self._subject.classify(worker, one.case, signature)
            except TimeUp:
                self._unfinished.add(one.index)
                one.classified = False
            except WorkerError as error:
                line = self._fail(one.index, error, one.case, False) or TOO_MANY
                yield Notice(f"{signature} stays unclassified, and as drawn: {line}")
                renewed(worker)
                one.classified = False
            final = self._subject.key_of(signature, issue)
            sorted_out[final] = self._merged(sorted_out.get(final, one), one)
        self._found = sorted_out
        return list(sorted_out.items())

    def _explained_as_drawn(self, worker: WorkerProcess, found: list[tuple[Key, Kept]]) -> Iterator[Event]:
        """Explain findings that stay as they were drawn, and save them again. Raises NotSaved."""
        for key, one in found:
            result, notices = self._explained(worker, one, one.case, one.result)
            yield from map(Notice, notices)
            if result is one.result:
                continue
            repro = self._subject.repro(one.case, result, one.index, None, None)
            path = one.path or self._place(key, repro)
            self._found[key] = msgspec.structs.replace(one, result=result, repro=repro, path=path)
            save(path, repro)

    def _explained_late(self, worker: WorkerProcess) -> Iterator[Event]:
        """Explain findings in their final forms, and save them again. Raises NotSaved."""
        for key, one in list(self._kept.items()):
            if one.path is None or one.repro.shrink is None:
                continue
            result, notices = self._explained(worker, one, one.case, one.result)
            yield from map(Notice, notices)
            if result is not one.result:
                repro = self._subject.repro(one.case, result, one.index, key.issue, one.repro.shrink)
                self._kept[key] = msgspec.structs.replace(one, result=result, repro=repro)
                save(one.path, repro)

    def _explained(self, worker: WorkerProcess, found: Kept, case: Any, result: Any) -> tuple[Any, list[str]]:
        """The result of a finding's case with its explanation, and notices; the result as it is if the harness fails in
        that."""
        try:
            return self._subject.explain(worker, case, result, [index for _, index in found.failing]), []
        except TimeUp:
            self._unfinished.add(found.index)
            return result, []
        except WorkerError as error:
            line = self._fail(found.index, error, case, False) or TOO_MANY
            renewed(worker)
            return result, [f"{found.repro.signature} stays without an explanation: {line}"]

    def _finish_one(
        self, worker: WorkerProcess, key: Key, found: Kept, number: str, seconds: float
    ) -> Generator[Event, None, Sequence[Failing]]:
        """Shrink and save one finding, unless its key already has a final form. Returns failing cases of other findings
        seen meanwhile. That may take `seconds`."""
        if self._is_counted(key, found):
            yield self._more(key, found)
            return ()
        subject, final = self._subject, key
        others: Sequence[Failing] = ()
        stays = subject.stays_as_drawn(found.result)
        if self._settings.shrink and found.classified and not stays:
            yield Notice(f"shrinking {number}: {key} ...")
            case = found.case
            try:
                shrunk, notices = self._shrunk(worker, key, found, time.monotonic() + SHRINKING_SHARE * seconds)
                others, case = shrunk.others, shrunk.case
                yield from map(Notice, notices)
                concluded = subject.conclude(worker, key, shrunk)
            except TimeUp:
                self._unfinished.add(found.index)
            except WorkerError as error:
                line = self._fail(found.index, error, case, True) or TOO_MANY
                yield Notice(f"{key.signature} stays as drawn: {line}")
                renewed(worker)
            else:
                if concluded is None:
                    yield Notice(f"{key.signature} stays as drawn: it did not happen again")
                else:
                    result, final = concluded
                    if not self._is_limited:
                        result, notices = self._explained(worker, found, shrunk.case, result)
                        yield from map(Notice, notices)
                    repro = subject.repro(shrunk.case, result, found.index, final.issue, record_of(shrunk))
                    found = msgspec.structs.replace(found, case=shrunk.case, result=result, repro=repro)
        if found.repro.shrink is None and final.issue is not None:
            repro = subject.repro(found.case, found.result, found.index, final.issue, None)
            found = msgspec.structs.replace(found, repro=repro)
        self._final[key] = final
        if final.issue != key.issue:
            yield Notice(f"{key} shrank to {final.issue_in_words}")
        if self._is_counted(final, found):
            yield self._more(final, found)
            return others
        path = self._settings.out / found.repro.file_name
        if self._settings.shrink and stays:
            yield Notice(f"{key} stays as drawn, for each run costs a process: harness shrink {path} continues")
        save(path, found.repro)
        kept = self._keep(final, msgspec.structs.replace(found, path=path))
        was = None if final.signature == key.signature else key
        yield FindingKept(
            subject.noun,
            final,
            kept.repro,
            path,
            kept.count,
            subject.about(final, kept.repro),
            was,
        )
        return others

    def _shrunk(self, worker: WorkerProcess, key: Key, found: Kept, until: float) -> tuple[Shrunk[Any, Any], list[str]]:
        """The smallest form that is found in time, and notices about candidates that the harness failed in."""
        subject, executions = self._subject, self._settings.shrink_executions
        plan = _Guarded(subject.plan(worker, key, found.result), found.index, self._fail, worker)
        budget = subject.shrink_budget if executions is None else executions
        # One candidate that hangs must not take the time of the other findings; a worker that is ended costs seconds.
        worker.until = min(self._until, until + CANDIDATE_SECONDS)
        try:
            shrunk = shrink(found.case, found.result, plan, budget, until)
        finally:
            worker.until = self._until
        if not shrunk.complete and time.monotonic() >= until:
            self._unfinished.add(found.index)
        return shrunk, plan.notices

    def _is_counted(self, key: Key, found: Kept) -> bool:
        """Whether another case represents the key already: then it represents this finding as well."""
        known = self._kept.get(key)
        if known is None or not self._represents(known, found):
            return False
        known.count += found.count
        return True

    def _more(self, key: Key, found: Kept) -> Notice:
        more = counted(found.count, f"more {self._subject.noun}")
        return Notice(f"{key} was found in {more}: see {self._kept[key].path}")

    def _keep(self, key: Key, found: Kept) -> Kept:
        """Keep the case that represents a key, with its file, and return it."""
        known = self._kept.get(key, found)
        first = self._kept[key] = self._merged(known, found)
        second = known if first is found else found
        if first.path and second.path and first.path != second.path and first.path.parent == second.path.parent:
            second.path.unlink(missing_ok=True)
        return first

    def so_far(self) -> list[tuple[Key, Kept]]:
        """The same while they are sorted out: as kept, and the others as found. Another thread may ask."""
        kept, final = dict(self._kept), dict(self._final)
        waiting = {key: one for key, one in dict(self._found).items() if key not in final}
        return _in_order({**waiting, **kept})

    def summary(self) -> list[tuple[Key, Kept]]:
        """The findings as kept, else as found, in the order of first cases; those that no drawn case showed come
        last."""
        return _in_order(self._kept or self._found)


def _in_order(found: Mapping[Key, Kept]) -> list[tuple[Key, Kept]]:
    return sorted(found.items(), key=lambda item: (not item[1].count, item[1].index, item[0].signature))


class _Guarded:
    """A plan that saves a candidate in which the harness fails, and drops it."""

    def __init__(self, plan: Plan[Any, Any], index: int, fail: Fail, worker: WorkerProcess) -> None:
        self._plan, self._index, self._fail, self._worker = plan, index, fail, worker
        self._broken = False
        self.passes = plan.passes
        self.encode, self.size, self.require_valid = plan.encode, plan.size, plan.require_valid
        self.notices: list[str] = []

    def judge(self, case: Any) -> Judged[Any] | None:
        if self._broken:
            return None
        try:
            return self._plan.judge(case)
        except TimeUp:  # the driver looks at the clock next
            return None
        except WorkerError as error:
            line = self._fail(self._index, error, case, True)
            if line is None:
                self._broken = True
            else:
                self.notices.append(line)
                renewed(self._worker)
        return None


def renewed(worker: WorkerProcess) -> None:
    """Replace a worker that failed. Where its time is over none is waited for: the next request gets one."""
    with contextlib.suppress(TimeUp):
        worker.restart()


def record_of(shrunk: Shrunk[Any, Any]) -> ShrinkRecord:
    """The record of shrinking for a repro file."""
    return ShrinkRecord(executions=shrunk.executions, seconds=round(shrunk.seconds, 3), complete=shrunk.complete)

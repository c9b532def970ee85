"""Expectations are what a run knows before it starts: mutes, and the findings of an earlier campaign.

At its end they give each finding its standing (harness.subject.standing)."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.campaign.comparison import compare
from harness.campaign.corpus import ReplayedFile
from harness.campaign.folder import CampaignFolder
from harness.campaign.history import FindingHistory, read_history
from harness.campaign.mute import Mute
from harness.campaign.mutes import read_mutes
from harness.campaign.past import FindingKey, Past, read_past
from harness.campaign.situation import Journaled
from harness.repro import AnyRepro
from harness.subject.standing import Baseline, CorpusAnswer, ExpiredMute, Muted, NeedlessMute, Standing
from harness.subject.subject import Kept, Key, Subject


class Expectations(msgspec.Struct, frozen=True):
    """`today` decides which mutes have expired. `past` is None where no earlier campaign was named, `history` what its
    folder knows of when findings were seen. `corpus` are files that were replayed before this campaign, or left out."""

    mutes: Sequence[Mute]
    past: Past | None
    history: Mapping[FindingKey, FindingHistory]
    today: datetime.date
    corpus: Sequence[ReplayedFile] = ()

    @property
    def notices(self) -> list[str]:
        """What a user should know before the run."""
        return [] if self.past is None else self.past.notices

    def standing(
        self,
        subject: Subject[Any, Any],
        findings: Sequence[tuple[Key, Kept]],
        journal: Journaled | None,
        complete: bool,
    ) -> Standing:
        """The standing of the findings of one campaign, whose journal is given. Not `complete`: it was interrupted, so
        that what it found may not be known yet."""
        muted: list[Muted] = []
        met: set[int] = set()
        """The places of mutes whose findings occurred, expired ones too."""
        for number, (key, kept) in enumerate(findings):
            covering = self._covering(subject, key, kept)
            met.update(covering)
            holding = [self.mutes[place] for place in covering if not self.mutes[place].expired(self.today)]
            if holding:
                muted.append(_muted(number, holding[0]))
        corpus = []
        for one in self.corpus:
            answer, covering = self._answer(one)
            corpus.append(answer)
            met.update(covering)
        absent = [one for place, one in enumerate(self.mutes) if place not in met and not one.expired(self.today)]
        return Standing(
            muted=muted,
            expired=[_expired(one) for one in self.mutes if one.expired(self.today)],
            needless=[] if journal is None or not complete else list(_needless(absent, journal)),
            baseline=self._baseline(subject, findings, journal, complete),
            corpus=corpus,
        )

    def counts_as_drawn(self, subject: Subject[Any, Any], key: Key, kept: Kept) -> bool:
        """Whether a finding counts, as far as its case as it was drawn says that."""
        if self.past is not None and (subject.name, key.signature, key.issue) in (
            one.key for one in self.past.findings
        ):
            return False
        return all(self.mutes[place].expired(self.today) for place in self._covering(subject, key, kept))

    def _covering(self, subject: Subject[Any, Any], key: Key, kept: Kept) -> list[int]:
        """The places of the mutes that cover a finding, expired ones too."""
        return self._places(subject.issue_of(key, kept.repro), kept.repro, subject.encode(kept.case))

    def _places(self, key: Key, repro: AnyRepro, case: bytes) -> list[int]:
        return [place for place, one in enumerate(self.mutes) if one.covers(key, repro, case)]

    def _answer(self, one: ReplayedFile) -> tuple[CorpusAnswer, list[int]]:
        """What came of a file of the corpus, and the places of the mutes that cover it, expired ones too."""
        file = str(one.file.path)
        if one.replay is None:
            return CorpusAnswer(file=file, answer="SKIPPED", reason=one.reason), []
        subject, repro, replayed, *_ = one.replay
        key, covering = None, []
        if replayed.answer == "FAILED" and replayed.signature is not None:
            key = subject.issue_of(Key(replayed.signature, repro.issue if replayed.same else None), repro)
            covering = self._places(key, repro, subject.encode(type(subject).case_of(repro)))
        holding = [self.mutes[place] for place in covering if not self.mutes[place].expired(self.today)]
        return CorpusAnswer(
            file=file,
            answer=replayed.answer,
            signature=replayed.signature,
            issue=None if key is None else key.issue_in_words,
            summary=replayed.summary,
            reason=replayed.reason,
            muted=_muted(0, holding[0]).why if holding else None,
        ), covering

    def _baseline(
        self,
        subject: Subject[Any, Any],
        findings: Sequence[tuple[Key, Kept]],
        journal: Journaled | None,
        complete: bool,
    ) -> Baseline | None:
        if self.past is None:
            return None
        keys = [(subject.name, key.signature, key.issue) for key, _ in findings]
        earlier = [one for one in self.past.findings if one.subject == subject.name]
        judged = {} if journal is None else {subject.name: journal}
        return compare(self.past, earlier, keys, judged, self.history, complete=complete)


def _needless(absent: Iterable[Mute], journal: Journaled) -> Iterator[NeedlessMute]:
    """Of mutes whose findings did not occur, those that say nothing any more."""
    for mute in absent:
        situation = mute.situation
        cases, why = journal.why_unknown(situation)
        if situation is not None and why is None:
            yield NeedlessMute(mute=mute.name, cases=cases, one_in=situation.one_in)


def _muted(number: int, mute: Mute) -> Muted:
    until = None if isinstance(mute.expires, msgspec.UnsetType) else mute.expires.isoformat()
    link = None if isinstance(mute.link, msgspec.UnsetType) else mute.link
    return Muted(finding=number, mute=mute.name, reason=mute.reason, until=until, link=link)


def _expired(mute: Mute) -> ExpiredMute:
    assert not isinstance(mute.expires, msgspec.UnsetType)
    return ExpiredMute(mute=mute.name, on=mute.expires.isoformat())


def expectations(known: Path | None, baseline: Path | None, today: datetime.date | None = None) -> Expectations:
    """What a file of mutes and the folder of an earlier campaign say. `today` is by UTC.

    Raises InvalidMutes, NoPast, or DamagedHistory."""
    mutes = [] if known is None else read_mutes(known)
    past = None if baseline is None else read_past(baseline)
    history = {} if baseline is None else read_history(CampaignFolder(baseline).history_file)
    return Expectations(mutes, past, history, today or datetime.datetime.now(datetime.UTC).date())

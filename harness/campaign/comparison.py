"""A comparison says of two campaigns what the later one found that the earlier one had not, and the other way round.

What only the earlier one has is gone only where the later one judged enough cases among which it would have shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.campaign.history import FindingHistory
from harness.campaign.past import FindingKey, Past, PastFinding
from harness.campaign.situation import Journaled
from harness.subject.standing import Absent, Baseline, StillThere


def compare(
    past: Past,
    earlier: Sequence[PastFinding],
    later: Sequence[FindingKey],
    judged: Mapping[str, Journaled],
    history: Mapping[FindingKey, FindingHistory],
    *,
    complete: bool,
) -> Baseline:
    """Compare findings of a past campaign with later ones, which are numbered by their places. `judged` are the
    journals of the later campaign by subject; not `complete`: it was interrupted, so that what it found may not be
    known yet."""
    before = {one.key for one in earlier}
    absent = [_absent(one, judged.get(one.subject), complete) for one in earlier if one.key not in later]
    return Baseline(
        folder=str(past.folder),
        target=past.target,
        updated=past.updated,
        new=[place for place, key in enumerate(later) if key not in before],
        still=[_still(place, history.get(key)) for place, key in enumerate(later) if key in before],
        gone=[one for one in absent if one.why_unknown is None],
        not_looked_at=[one for one in absent if one.why_unknown is not None],
    )


def _still(place: int, known: FindingHistory | None) -> StillThere:
    if known is None:
        return StillThere(finding=place)
    return StillThere(finding=place, since=known.first.when, first_target=known.first.where)


def _absent(one: PastFinding, journal: Journaled | None, complete: bool) -> Absent:
    if journal is None:
        return Absent(name=one.name, cases=0, why_unknown="no case of its kind was judged")
    cases, why = journal.why_unknown(one.situation)
    return Absent(name=one.name, cases=cases, why_unknown=why if complete else "the campaign was interrupted")

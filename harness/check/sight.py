"""Sight is what an instrumented executor sees beside the bytes: races, here told in the words of the domain.

It comes before any byte difference: what a race or an undefined number damages is chance, they themselves are not.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.case import Case, operation_name
from harness.check.evidence import OBJECTS, SHOWN_DIFFERENCES
from harness.check.outcome import Evidence, Signature
from harness.memory import MemoryPlan, describe
from harness.memory.accesses import RecordedLaunch
from harness.oracles.races import Race, find_races


def race_evidence(
    case: Case,
    plan: MemoryPlan,
    index: int,
    launches: Sequence[RecordedLaunch],
    *,
    identical: bool = False,
) -> tuple[Signature, Evidence] | None:
    """The races of operation `index`; those of stores of one value only if `identical`."""
    races = [race for launch in launches for race in find_races(launch) if identical or not race.identical]
    if not races:
        return None
    places = [describe(case, plan, race.offset) for race in races]
    told = [_told(race, place.name) for race, place in zip(races, places, strict=True)]

    def grave(number: int) -> tuple[bool, bool, int, int]:
        race, kind = races[number], places[number].kind
        rank = OBJECTS.index(kind) if kind in OBJECTS else len(OBJECTS)
        return race.identical, race.between != "programs", rank, number

    order = sorted(range(len(races)), key=grave)
    first = order[0]
    kind = places[first].kind
    signature = Signature(
        operation_name(case.program[index]),
        "race",
        f"between-{races[first].between}" + ("-identical" if races[first].identical else ""),
        kind,
        case.layout.conv_layout if kind == "conv" else "-",
    )
    return signature, Evidence(told[first], (), 0, tuple(told[number] for number in order[:SHOWN_DIFFERENCES]))


def _told(race: Race, place: str) -> str:
    one, other = race.first, race.second
    what = "both store the same value" if race.identical else "nothing orders them"
    if race.between == "programs":
        who = f"programs {one.program} and {other.program}"
    else:
        who = f"warps {one.warp} and {other.warp} of program {one.program}"
    return f"race between {who} at {place}: {one}; {other}; {what}"

"""Sight is what an instrumented executor sees beside the bytes, here told in the words of the domain: races, and
numbers that nobody has defined where they decide something, or where defined ones must lie.

It comes before any byte difference: what a race or an undefined number damages is chance, they themselves are not.
"""

from __future__ import annotations

from harness.check.evidence import EXAMINED_RUNS, SHOWN_DIFFERENCES, rank, signature_at
from harness.check.operation_run import OperationRun
from harness.check.outcome import Evidence, Signature
from harness.memory import describe
from harness.oracles.races import Race, find_races
from harness.oracles.undefined import find_undefined

USES = {
    "undefined-address": "decides an address",
    "undefined-branch": "decides what is done",
}
"""Uses of undefined numbers, as executors call them and as people do."""


def use_evidence(run: OperationRun) -> tuple[Signature, Evidence] | None:
    """Undefined numbers that an address or a branch hung on."""
    uses = [fault for fault in run.faults if fault.violation in USES]
    if not uses:
        return None
    told = []
    for fault in uses:
        place = describe(run.case, run.plan, fault.offset)
        text = f"{place.name} was never defined, and {USES[fault.violation]} in {fault.where}"
        told.append((place, text))
    first = min(range(len(told)), key=lambda number: (uses[number].violation, rank(told[number][0].kind), number))
    violation = uses[first].violation.removeprefix("undefined-")
    signature = signature_at(run.case, run.index, "undefined", violation, told[first][0].kind)
    return signature, Evidence(told[first][1], (), 0, tuple(text for _, text in told[:SHOWN_DIFFERENCES]))


def undefined_evidence(run: OperationRun) -> tuple[Signature, Evidence] | None:
    """Undefined bytes where the oracle's own trace has defined ones."""
    runs = [] if run.shadows is None else list(find_undefined(*run.shadows))
    if not runs:
        return None
    told = [(describe(run.case, run.plan, start), size) for start, size in runs[:EXAMINED_RUNS]]
    told.sort(key=lambda item: rank(item[0].kind))
    signature = signature_at(run.case, run.index, "undefined", "bytes", told[0][0].kind)
    texts = tuple(f"{place.name}: {size} bytes were copied from where nobody has written" for place, size in told)
    total = sum(size for _, size in runs)
    return signature, Evidence(texts[0], (), total, texts[:SHOWN_DIFFERENCES])


def race_evidence(run: OperationRun) -> tuple[Signature, Evidence] | None:
    """Its races; those of stores of one value only if the case asks for them."""
    identical = "identical-stores" in run.case.execution.checks
    races = [race for launch in run.recorded for race in find_races(launch) if identical or not race.identical]
    if not races:
        return None
    places = [describe(run.case, run.plan, race.offset) for race in races]
    told = [_told(race, place.name) for race, place in zip(races, places, strict=True)]

    def grave(number: int) -> tuple[bool, bool, int, int]:
        race, kind = races[number], places[number].kind
        return race.identical, race.between != "programs", rank(kind), number

    order = sorted(range(len(races)), key=grave)
    first = order[0]
    violation = f"between-{races[first].between}" + ("-identical" if races[first].identical else "")
    signature = signature_at(run.case, run.index, "race", violation, places[first].kind)
    return signature, Evidence(told[first], (), 0, tuple(told[number] for number in order[:SHOWN_DIFFERENCES]))


def _told(race: Race, place: str) -> str:
    one, other = race.first, race.second
    what = "both store the same value" if race.identical else "nothing orders them"
    if race.between == "programs":
        who = f"programs {one.program} and {other.program}"
    else:
        who = f"warps {one.warp} and {other.warp} of program {one.program}"
    return f"race between {who} at {place}: {one}; {other}; {what}"

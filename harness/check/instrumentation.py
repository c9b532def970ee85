"""Instrumentation is what an instrumented executor reports in addition to the bytes, here in terms of the domain:
races, and uninitialised values that decide something or lie where defined ones must be.

It comes before any byte difference: which bytes a race or an undefined number damages is a matter of chance, the race
or number itself is not.
"""

from __future__ import annotations

from harness.check.evidence import EXAMINED_RUNS, SHOWN_DIFFERENCES, code_places, launched_at, rank, signature_at
from harness.check.operation_run import OperationRun
from harness.check.outcome import Evidence, Signature
from harness.memory import describe
from harness.oracles.races import Race, find_races
from harness.oracles.undefined import find_undefined

USES = {
    "undefined-address": "decides an address",
    "undefined-branch": "decides what is done",
}
"""Uses of undefined numbers: the executors' names and texts for people."""


def use_evidence(run: OperationRun) -> tuple[Signature, Evidence] | None:
    """The evidence of undefined numbers that an address or a branch depends on."""
    uses = [fault for fault in run.faults if fault.violation in USES]
    if not uses:
        return None
    described = []
    for fault in uses:
        place = describe(run.case, run.plan, fault.offset)
        text = f"{place.name} was never defined, and {USES[fault.violation]} in {fault.where}"
        text += launched_at(fault.launched, run.owns)
        described.append((place, text))
    first = min(
        range(len(described)), key=lambda number: (uses[number].violation, rank(described[number][0].kind), number)
    )
    violation = uses[first].violation.removeprefix("undefined-")
    signature = signature_at(run.case, run.index, "undefined", violation, described[first][0].kind)
    places = code_places("access", uses[first].code, uses[first].launched, run.owns)
    details = tuple(text for _, text in described[:SHOWN_DIFFERENCES])
    return signature, Evidence(described[first][1], (), 0, details, places)


def undefined_evidence(run: OperationRun) -> tuple[Signature, Evidence] | None:
    """The evidence of undefined bytes where the oracle's own trace has defined ones."""
    runs = [] if run.shadows is None else list(find_undefined(*run.shadows))
    if not runs:
        return None
    described = [(describe(run.case, run.plan, start), size) for start, size in runs[:EXAMINED_RUNS]]
    described.sort(key=lambda item: rank(item[0].kind))
    signature = signature_at(run.case, run.index, "undefined", "bytes", described[0][0].kind)
    texts = tuple(
        f"{place.name}: {size} bytes were copied from memory that was never written" for place, size in described
    )
    total = sum(size for _, size in runs)
    return signature, Evidence(texts[0], (), total, texts[:SHOWN_DIFFERENCES])


def race_evidence(run: OperationRun) -> tuple[Signature, Evidence] | None:
    """The evidence of races; races between stores of the same value count only if the case asks for them."""
    identical = "identical-stores" in run.case.execution.checks
    races = [race for launch in run.recorded for race in find_races(launch) if identical or not race.identical]
    if not races:
        return None
    places = [describe(run.case, run.plan, race.offset) for race in races]
    described = [_race_text(run, race, place.name) for race, place in zip(races, places, strict=True)]

    def grave(number: int) -> tuple[bool, bool, int, int]:
        race, kind = races[number], places[number].kind
        return race.identical, race.between != "programs", rank(kind), number

    order = sorted(range(len(races)), key=grave)
    first = order[0]
    violation = f"between-{races[first].between}" + ("-identical" if races[first].identical else "")
    signature = signature_at(run.case, run.index, "race", violation, places[first].kind)
    race = races[first]
    stores = race.first if race.first.is_store else race.second
    return signature, Evidence(
        described[first],
        (),
        0,
        tuple(described[number] for number in order[:SHOWN_DIFFERENCES]),
        code_places("store", stores.code, race.launched, run.owns),
    )


def _race_text(run: OperationRun, race: Race, place: str) -> str:
    one, other = race.first, race.second
    what = "both store the same value" if race.identical else "nothing orders them"
    if race.between == "programs":
        who = f"programs {one.program} and {other.program}"
    else:
        who = f"warps {one.warp} and {other.warp} of program {one.program}"
    return f"race between {who} at {place}: {one}; {other}; {what}{launched_at(race.launched, run.owns)}"

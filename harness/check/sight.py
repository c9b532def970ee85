"""Sight is what an instrumented executor sees beside the bytes, here told in the words of the domain: races, and
numbers that nobody has defined where they decide something, or where defined ones must lie.

It comes before any byte difference: what a race or an undefined number damages is chance, they themselves are not.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.accesses import RecordedLaunch
from harness.case import Case, operation_name
from harness.check.evidence import EXAMINED_RUNS, OBJECTS, SHOWN_DIFFERENCES
from harness.check.outcome import Evidence, Signature
from harness.kernels.executors.base import AccessFault
from harness.memory import Image, MemoryPlan, describe
from harness.oracles.races import Race, find_races
from harness.oracles.undefined import find_undefined

USES = {
    "undefined-address": "decides an address",
    "undefined-branch": "decides what is done",
}
"""Uses of undefined numbers, as executors call them and as people do."""


def use_evidence(
    case: Case, plan: MemoryPlan, index: int, faults: Sequence[AccessFault]
) -> tuple[Signature, Evidence] | None:
    """Undefined numbers that an address or a branch hung on, among `faults`."""
    uses = [fault for fault in faults if fault.violation in USES]
    if not uses:
        return None
    told = []
    for fault in uses:
        place = describe(case, plan, fault.offset)
        text = f"{place.name} was never defined, and {USES[fault.violation]} {_where(fault)}"
        told.append((place, text))
    first = min(range(len(told)), key=lambda number: (uses[number].violation, _rank(told[number][0].kind), number))
    kind, violation = told[first][0].kind, uses[first].violation.removeprefix("undefined-")
    layout = case.layout.conv_layout if kind == "conv" else "-"
    signature = Signature(operation_name(case.program[index]), "undefined", violation, kind, layout)
    return signature, Evidence(told[first][1], (), 0, tuple(text for _, text in told[:SHOWN_DIFFERENCES]))


def undefined_evidence(
    case: Case, plan: MemoryPlan, index: int, traced: Image, found: Image
) -> tuple[Signature, Evidence] | None:
    """Undefined bytes where the oracle's own trace has defined ones."""
    runs = list(find_undefined(traced, found))
    if not runs:
        return None
    told = [(describe(case, plan, start), size) for start, size in runs[:EXAMINED_RUNS]]
    told.sort(key=lambda item: _rank(item[0].kind))
    kind = told[0][0].kind
    layout = case.layout.conv_layout if kind == "conv" else "-"
    signature = Signature(operation_name(case.program[index]), "undefined", "bytes", kind, layout)
    texts = tuple(f"{place.name}: {size} bytes were copied from where nobody has written" for place, size in told)
    total = sum(size for _, size in runs)
    return signature, Evidence(texts[0], (), total, texts[:SHOWN_DIFFERENCES])


def _where(fault: AccessFault) -> str:
    return f"in {fault.kernel}, {fault.source} line {fault.line}, program {fault.program}, lane {fault.lane}"


def _rank(kind: str) -> int:
    return OBJECTS.index(kind) if kind in OBJECTS else len(OBJECTS)


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
        return race.identical, race.between != "programs", _rank(kind), number

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

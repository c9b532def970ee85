"""Every regime is reached; impossible ones are never reached in the reachable domain; planted cases are named right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from harness.case import Case, ConvState, Postprocess, PostprocessRow, Precopy, PrecopyRow, TemporalState
from harness.case.case import Contents
from harness.case.layout import Buffer, Group, Layer, Layout
from harness.generators.cases import draw_case, draw_layout
from harness.generators.draw import RandomDraw
from harness.regimes import REGIMES, regimes_of
from harness.regimes.reach import out_of_reach, within_reach

CASES = 6000
CASES_OF_OPERATION = 480
LAYOUT_EVERY = 8


@pytest.fixture(scope="module")
def counts() -> dict[str, Counter]:
    """How many of some thousand cases of each domain are in each regime; for regimes of one operation, how many of some
    hundred cases of that operation."""
    found = {}
    for domain in ("reachable", "total"):
        counter: Counter = Counter()
        for name in drawn(domain, ("postprocess", "precopy"), CASES):
            counter[name] += REGIMES[name].operation is None
        for operation in sorted({regime.operation for regime in REGIMES.values() if regime.operation}):
            for name in drawn(domain, (operation,), CASES_OF_OPERATION):
                counter[name] += REGIMES[name].operation == operation
        found[domain] = counter
    return found


def drawn(domain, operations, cases: int) -> Iterator[str]:
    for index in range(cases):
        if index % LAYOUT_EVERY == 0:
            plan = draw_layout(RandomDraw(f"5/layout/{index // LAYOUT_EVERY}"), domain, "full")
        yield from regimes_of(draw_case(RandomDraw(f"5/case/{index}"), plan, domain, operations, "full"))


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(REGIMES))
def test_every_regime_is_reached(name: str, counts: dict[str, Counter]) -> None:
    assert counts["total"][name] + counts["reachable"][name] >= 4
    if REGIMES[name].reachable:
        assert counts["reachable"][name] >= 4


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(name for name in REGIMES if not REGIMES[name].reachable))
def test_reachable_never_holds_what_production_cannot_do(name: str, counts: dict[str, Counter]) -> None:
    assert counts["reachable"][name] == 0


@pytest.mark.long
@pytest.mark.parametrize("name", ["same-block-shift-sd", "same-block-shift-ds", "same-block-shift-bias-2+"])
def test_same_block_shifts_are_common(name: str, counts: dict[str, Counter]) -> None:
    assert counts["total"][name] > CASES // 20
    assert counts["reachable"][name] > CASES // 200


def small_case(*program, conv_layout: str = "SD", owners: tuple[int, ...] = (-1, 0, 0, 0)) -> Case:
    """Blocks of four tokens; one layer with a window of three and a temporal state; columns hold blocks 1, 2, 3."""
    conv = ConvState(
        item_size=2,
        window=3,
        dim=4,
        buffer=0,
        offset=0,
        block_stride=64,
        row_stride=6 if conv_layout == "DS" else None,
    )
    temporal = TemporalState(item_size=4, shape=(10,), buffer=0, offset=24, block_stride=64)
    layout = Layout(
        conv_layout=conv_layout,
        block_size=4,
        num_spec=2,
        num_blocks=4,
        buffers=(Buffer(size=256),),
        groups=(Group(layers=(Layer(states=(conv, temporal)),)),),
        table_rows=4,
        table_columns=8,
    )
    contents = Contents(payload_seed=0, tables=(((1, 2, 3), (0, 1)),), owners=owners)
    return Case(domain="total", layout=layout, contents=contents, program=program)


def test_planted_shift() -> None:
    row = PostprocessRow(slot=0, scheduled=3, computed=1, draft=2, accepted=3, state_column=0)
    regimes = regimes_of(small_case(Postprocess(runner="V1", rows=(row,)), conv_layout="DS"))
    assert {
        "same-block-shift-ds",
        "same-block-shift-bias-2+",
        "all-drafts-accepted",
        "reset-of-accepted",
        "temporal-from-spec-column",
        "everything-moves",
        "tight-page",
        "item-size-2",
        "item-size-4",
        "one-request",
        "postprocess-v1",
    } <= regimes
    assert not {"same-block-shift-sd", "count-kept", "padded-page", "shared-source", "nothing-moves"} & regimes


def test_planted_mapping() -> None:
    rows = (
        PrecopyRow(slot=3, source_column=-1, destination_column=0, bias=0),
        PrecopyRow(slot=-1, source_column=0, destination_column=1, bias=0),
        PrecopyRow(slot=0, source_column=0, destination_column=2, bias=2),
    )
    regimes = regimes_of(small_case(Precopy(runner="V2", rows=rows)))
    assert {
        "fresh-request",
        "skipped-row",
        "permuted-mapping",
        "sparse-mapping",
        "prefill-over-several-blocks",
        "temporal-onto-itself",
        "move-between-blocks",
        "precopy-v2",
    } <= regimes
    assert not {"everything-moves", "precopy-v1", "same-block-shift-sd", "bias-at-least-window"} & regimes


@pytest.mark.long
def test_holds_agrees_with_regimes_of() -> None:
    row = PostprocessRow(slot=0, scheduled=1, computed=1, draft=0, accepted=0, state_column=0)
    case = small_case(Postprocess(runner="V1", rows=(row,)))
    assert {name for name, regime in REGIMES.items() if regime.holds(case)} == regimes_of(case)
    assert {"accepted-zero", "nothing-moves", "zero-drafts"} <= regimes_of(case)


def test_reach_follows_from_domains_and_operations() -> None:
    (total_only, *_) = [one for one in REGIMES.values() if not one.reachable and one.operation is None]
    (of_advance, *_) = [one for one in REGIMES.values() if one.operation == "advance" and one.reachable]
    assert out_of_reach(total_only.name, ("reachable",), ("postprocess",)) == "only the total domain has it"
    assert out_of_reach(total_only.name, ("reachable", "total"), ("postprocess",)) is None
    assert "not among the operations" in (out_of_reach(of_advance.name, ("reachable",), ("postprocess",)) or "")
    assert out_of_reach(of_advance.name, ("reachable",), ("advance",)) is None
    assert of_advance.name not in within_reach(("reachable",), ("postprocess",))

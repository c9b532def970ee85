"""What an explained failure says: lines of the target, the last store, where found bytes come from, a diagnosis."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.case import Buffer, Case, Postprocess, PostprocessRow, Precopy, PrecopyRow
from harness.check.contents import contents_in_words
from harness.check.evidence import byte_evidence
from harness.check.operation_run import OperationRun, Seen
from harness.check.operations.registry import expect
from harness.check.outcome import Evidence, Verdict
from harness.check.session import Session
from harness.check.suspects import Suspects
from harness.check.writers import NEVER_WRITTEN, writer_in_words
from harness.kernels.executors.base import Executor
from harness.kernels.executors.registry import create_executor, executor_class
from harness.kernels.mutations.mutation import Mutation
from harness.kernels.mutations.registry import mutation
from harness.kernels.targets.builtin import BuiltinTarget
from harness.memory import initial_image, plan_memory

MOVE = Precopy(
    runner="V2",
    rows=(
        PrecopyRow(slot=2, source_column=0, destination_column=1, bias=0),
        PrecopyRow(slot=1, source_column=0, destination_column=1, bias=0),
    ),
)
TABLES = {"tables": (((), (1, 2), (3, 4)), ((), (5, 6), (7, 8))), "owners": (-1, 0, 0, 0, 0, 1, 1, 1, 1)}


@pytest.fixture
def executor() -> Executor:
    if executor_class("native").unavailable() is not None:
        pytest.skip("no executor here records accesses")
    return create_executor("native")


def failed(executor: Executor, planted: Mutation, case: Case, suspects: Suspects | None = None) -> Verdict:
    session = Session(BuiltinTarget(executor, [planted]), executor)
    outcome = session.check(case, explain=lambda signature: True, suspects=suspects)
    assert outcome.failure is not None
    return outcome.failure


def explained(executor: Executor, name: str, case: Case) -> Evidence:
    evidence = failed(executor, mutation(name), case).evidence
    assert evidence is not None
    return evidence


@pytest.fixture
def wide(make_case: Callable[..., Case], make_layout: Callable[..., Any]) -> Case:
    return make_case(MOVE, layout=make_layout(num_blocks=9, buffers=(Buffer(size=9 * 64),)), **TABLES)


def test_a_byte_that_nobody_wrote_says_so(executor: Executor, wide: Case) -> None:
    evidence = explained(executor, "wrong-destination", wide)
    first = evidence.differences[0]
    assert first.writer == NEVER_WRITTEN
    assert first.contents.startswith("expected the bytes of block ")
    assert evidence.summary == f"{first.place}: left as before; {first.contents}; {NEVER_WRITTEN}"
    (*_, host) = evidence.places
    assert (host.file, host.role) == ("harness/kernels/fused/context.py", "launch")
    assert evidence.diagnosis is not None
    assert "destination-is-source" in evidence.diagnosis.deviations


def test_wrong_bytes_name_the_last_store_and_whose_they_are(executor: Executor, wide: Case) -> None:
    evidence = explained(executor, "wrong-group", wide)
    wrong = next(one for one in evidence.differences if one.writer != NEVER_WRITTEN)
    assert "written by program (" in wrong.writer
    assert "harness/kernels/fused/" in wrong.writer
    assert "called from" in wrong.writer
    assert "; loaded from group 1, layer " in wrong.writer
    assert "; launched at harness/kernels/fused/context.py:" in wrong.writer
    assert "found those of block " in wrong.contents
    assert {place.role for place in evidence.places} == {"store", "call", "launch"}
    assert evidence.diagnosis is not None
    assert "one-groups-table" in evidence.diagnosis.deviations


def test_whose_bytes_were_found_is_said_by_the_table_that_names_them(wide: Case) -> None:
    run = damaged(wide, lambda run: [])
    assert run.expected is not None
    copy = next(copy for copy in run.expected.copies if copy.place.group == 1 and copy.runs == 1)
    (other,) = {cells[0] for slot, cells in enumerate(wide.contents.tables[0]) if slot == copy.slot}
    run.found.view(copy.destination, copy.run_bytes)[:] = run.before.view(copy.place.block(other), copy.run_bytes)
    assert contents_in_words(run, copy.destination, copy.run_bytes) == (
        f"expected the bytes of block {copy.source_block} (column 0 of slot {copy.slot}), "
        f"found those of block {other}, which is what group 0's table has there"
    )


def test_a_race_names_the_launch(executor: Executor, make_case: Callable[..., Case]) -> None:
    row = PostprocessRow(slot=0, scheduled=3, computed=1, draft=2, accepted=3, state_column=0)
    tables = {"tables": (((1, 2, 2),) * 3, ((3, 4, 4),) * 3)}
    evidence = explained(executor, "stale-accept", make_case(Postprocess(runner="V2", rows=(row,)), **tables))
    assert "; launched at harness/kernels/fused/context.py:" in evidence.summary
    assert evidence.places[0].role == "store"
    assert evidence.diagnosis is not None
    assert evidence.diagnosis.deviations == ("count-read-after-reset",)


def test_other_cases_narrow_a_diagnosis(executor: Executor, wide: Case, make_case: Callable[..., Case]) -> None:
    suspects = Suspects()
    alone = make_case(
        Precopy(runner="V2", rows=MOVE.rows[:1]), layout=wide.layout, tables=TABLES["tables"], owners=TABLES["owners"]
    )
    planted = mutation("wrong-destination")
    first = failed(executor, planted, alone, suspects).evidence
    second = failed(executor, planted, wide, suspects).evidence
    assert first is not None
    assert second is not None
    assert first.diagnosis is not None
    assert second.diagnosis is not None
    assert set(second.diagnosis.deviations) < set(first.diagnosis.deviations)
    assert second.diagnosis.cases == 2


def test_a_finding_is_not_lost_because_it_cannot_be_explained(
    executor: Executor, wide: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("not this time")

    monkeypatch.setattr("harness.check.session.explained", broken)
    with pytest.warns(UserWarning, match="could not be explained"):
        verdict = failed(executor, mutation("wrong-destination"), wide)
    assert verdict.evidence is not None
    assert verdict.evidence.details[-1].endswith("ZeroDivisionError: not this time")
    assert verdict.evidence.differences


# Ranges.


def damaged(case: Case, where: Callable[[OperationRun], list[int]]) -> OperationRun:
    """A run that is right but for bytes of the first copy's destination, which are as before."""
    plan = plan_memory(case, 32)
    before = initial_image(case, plan)
    expected = expect(case, plan, 0, before)
    run = OperationRun(case, plan, 0, before, expected, expected.image.copy(), Seen({}, {}))
    for offset in where(run):
        run.found.view(offset, 1)[:] = expected.image.view(offset, 1) ^ 1
    return run


def temporal(run: OperationRun) -> int:
    assert run.expected is not None
    copies = [copy for copy in run.expected.copies if copy.runs == 1 and not hasattr(copy.place.state, "window")]
    return copies[0].destination


@pytest.mark.parametrize(
    ("wrong", "sizes"),
    [
        ([*range(8), *range(9, 16)], [16]),
        ([*range(16)], [16]),
        ([0, 2, 4, 6, 8, 10], [3, 3, 3]),
        ([0, 1, 2, 10, 11], [3, 2]),
    ],
)
def test_a_range_is_one_although_single_bytes_are_equal_by_chance(
    wide: Case, wrong: list[int], sizes: list[int]
) -> None:
    run = damaged(wide, lambda run: [temporal(run) + byte for byte in wrong])
    found = byte_evidence(run)
    assert found is not None
    assert [one.size for one in found[1].differences] == sizes
    assert found[1].total_bytes == len(wrong)


def test_a_range_names_its_elements(wide: Case) -> None:
    run = damaged(wide, lambda run: [temporal(run) + byte for byte in range(4, 16)])
    found = byte_evidence(run)
    assert found is not None
    assert ", elements " in found[1].differences[0].place
    assert np.all(run.found.data[:8] == run.before.data[:8])


@pytest.mark.parametrize(
    ("stored", "sentence"),
    [
        ((), "no store of this launch touched these bytes"),
        ((104,), "no store of this launch touched the first of these bytes"),
        ((92, 116), "no store of this launch touched these bytes"),
    ],
)
def test_that_nothing_stored_is_said_of_all_bytes_or_of_the_first(stored: tuple[int, ...], sentence: str) -> None:
    """Bytes 100 to 115 are wrong, and stores are 8 bytes wide."""
    launch = SimpleNamespace(
        offset=np.array(stored, dtype=np.int64),
        count=np.ones(len(stored), dtype=np.int64),
        source=np.zeros(len(stored), dtype=np.int64),
        sources=SimpleNamespace(width=np.array([8]), is_store=np.array([True])),
    )
    run: Any = SimpleNamespace(recorded=[launch])
    assert writer_in_words(run, 100, 16, None) == sentence

"""Every kind of operation is judged, on our own target, in both domains; and planted faults show where they should."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.case import InvalidCase, decode_case, encode_case, operation_name
from harness.check.outcome import Outcome
from harness.check.session import Session
from harness.engines.random import Recipe, case_at
from harness.generators.kinds.kind import KindName
from harness.generators.kinds.registry import KINDS
from harness.generators.reachability import require_reachable
from harness.kernels.executors.registry import create_executor, executor_class
from harness.kernels.mutations.registry import mutation
from harness.kernels.targets.registry import load_target
from harness.testing import target_conforms

OPERATIONS = tuple(KINDS)
CASES = 32
PLANTED = {
    "stale-accept": ("postprocess", "postprocess/memory/"),
    "batch-row-for-slot": ("postprocess", "postprocess/memory/"),
    "ignores-skip": ("precopy", "precopy/"),
    "stages-too-many": ("stage", "stage/host/stray-result/device state_column/-"),
    "late-host-write": ("stage", "stage/host/late-write/transfer/-"),
    "advance-resets-fresh": ("advance", "advance/memory/wrong-bytes/accepted/-"),
    "indices-wrong-column": ("aligned-indices", "aligned-indices/host/wrong-result/aligned_indices/-"),
    "forgets-column": ("preprocess", "preprocess/"),
    "tail-dropped": ("postprocess", "postprocess/memory/"),
    "remembers-prefills": ("all-mode", "all-mode/host/wrong-result/columns/-"),
    "scatters-zero": ("scatter-accepted", "scatter-accepted/memory/wrong-bytes/accepted/-"),
    "fills-zero": ("fill-accepted", "fill-accepted/memory/wrong-bytes/accepted/-"),
    "list-cut-short": ("scalar-copy", "scalar-copy/memory/wrong-bytes/"),
    "count-stays-behind": ("postprocess-entry", "postprocess-entry/host/wrong-result/"),
}

Judge = Callable[[str], Session]


@pytest.fixture(scope="module")
def session_of() -> Judge:
    reason = executor_class("native").unavailable()
    if reason is not None:
        pytest.skip(reason)

    def make(target: str) -> Session:
        executor = create_executor("native", ("memory",))
        return Session(load_target(target, executor), executor)

    return make


@pytest.fixture(scope="module")
def builtin(session_of: Judge) -> Session:
    return session_of("builtin")


def outcomes(session: Session, operation: KindName, domain: str, cases: int) -> list[Outcome]:
    recipe = Recipe(3, (domain,), (operation,), "full")  # type: ignore[arg-type]
    return [session.check(case_at(recipe, index)) for index in range(cases)]


@pytest.mark.long
def test_our_own_target_conforms_and_has_every_operation(executor_name: str) -> None:
    for operation, answer in target_conforms("builtin", executor=executor_name, cases=CASES).items():
        assert answer.judged >= CASES, operation
        assert (answer.lacking, answer.refused) == (0, 0), operation
        if operation not in ("stage", "all-mode", "forward"):
            assert answer.launches >= CASES, operation


@pytest.mark.parametrize("operation", OPERATIONS)
def test_drawn_cases_are_reachable_and_survive_json(operation: KindName) -> None:
    for index in range(CASES):
        case = case_at(Recipe(4, ("reachable",), (operation,), "full"), index)
        assert decode_case(encode_case(case)) == case
        require_reachable(case)


@pytest.mark.parametrize(("seed", "index"), [(4, 464), (5, 507)])
def test_a_block_belongs_to_the_group_that_took_it_last(seed: int, index: int) -> None:
    """The row of a request that is gone still names it, in the table of another group."""
    require_reachable(case_at(Recipe(seed, ("reachable",), ("forward",), "full"), index))


def test_a_program_is_made_of_steps_on_shared_arrays() -> None:
    cases = [case_at(Recipe(6, ("reachable",), ("forward",), "full"), index) for index in range(CASES)]
    assert all(case.linked for case in cases)
    names = {operation_name(operation) for case in cases for operation in case.program}
    assert names == {
        *("advance", "precopy", "forward", "scatter-accepted", "postprocess"),
        *("preprocess", "postprocess-entry", "edit-tables"),
    }


def test_a_missing_column_is_an_error(builtin: Session) -> None:
    """Staging must fail for some drawn batches: then the error is what is judged."""
    recipe = Recipe(3, ("total",), ("stage",), "full")
    cases = [case_at(recipe, index) for index in range(8 * CASES)]
    missing = [case for case in cases if any(getattr(row, "state_column", 0) is None for row in case.program[0].rows)]
    assert missing
    for case in missing:
        assert builtin.check(case).verdicts[0].status == "pass"


@pytest.mark.long
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found_by_its_check(session_of: Judge, name: str) -> None:
    operation, signature = PLANTED[name]
    assert operation in mutation(name).operations
    found = outcomes(session_of(f"builtin+{name}"), operation, "total", CASES)  # type: ignore[arg-type]
    signatures = {str(outcome.signature) for outcome in found if outcome.failure}
    assert any(text.startswith(signature) for text in signatures), signatures


def test_every_operation_has_a_planted_fault() -> None:
    """Except a forward pass, which the harness itself does."""
    assert {operation for operation, _ in PLANTED.values()} == set(OPERATIONS) - {"forward"}


def test_a_case_outside_the_preconditions_is_refused(builtin: Session) -> None:
    text = encode_case(case_at(Recipe(3, ("total",), ("forward",), "full"), 0))
    case = decode_case(text)
    columns = case.layout.table_columns
    far = text.replace(b'"column":', b'"column":%d' % columns) if b'"column":' in text else text
    assert far != text
    with pytest.raises(InvalidCase, match="outside the table row"):
        builtin.check(decode_case(far))

"""The shrinker and its passes alone, with judges that are plain predicates instead of targets."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.case import (
    Case,
    ConvState,
    InvalidCase,
    Layout,
    Postprocess,
    PostprocessRow,
    Precopy,
    PrecopyRow,
    decode_case,
    encode_case,
)
from harness.check.outcome import Evidence, Outcome, Seconds, Signature, Verdict
from harness.engines.random import Recipe, case_at
from harness.generators.reachability import require_reachable
from harness.kernel_cases.plan import CasePlan
from harness.kernel_cases.recipe import JudgedCase
from harness.shrink import driver
from harness.shrink.cases.passes import PASSES
from harness.shrink.cases.size import size
from harness.shrink.driver import HANGS, Shrunk


def shrink(
    case: Case, outcome: Outcome, judge: Callable[[Case], Outcome], max_executions: int = 1000
) -> Shrunk[Case, JudgedCase]:
    """Shrink a case that failed with `outcome`."""
    assert outcome.signature is not None
    return driver.shrink(case, JudgedCase(outcome), CasePlan(outcome.signature, judge), max_executions)


ONE = Signature("precopy", "memory", "wrong-bytes", "conv", "SD")
OTHER = Signature("precopy", "memory", "stray-write", "guard", "-")

recipes = st.builds(
    Recipe,
    seed=st.integers(0, 2**63 - 1),
    domains=st.sampled_from((("reachable",), ("total",))),
    operations=st.sampled_from((("postprocess", "precopy"), ("precopy",), ("postprocess",))),
    scale=st.just("small"),
)
cases = st.builds(case_at, recipes, st.integers(0, 1000))


def failed(signature: Signature = ONE) -> Outcome:
    return Outcome((Verdict("precopy", "fail", signature=signature, evidence=Evidence("x")),), Seconds())


PASSED = Outcome((Verdict("precopy", "pass"),), Seconds())


def when(predicate: Callable[[Case], bool]) -> Callable[[Case], Outcome]:
    """Fails where `predicate` holds."""
    return lambda case: failed() if predicate(case) else PASSED


@given(cases)
def test_every_proposal_is_a_valid_case_or_none(case: Case) -> None:
    before = encode_case(case)
    for propose in PASSES:
        for proposal in propose(case):
            try:
                candidate = proposal()
                decoded = decode_case(encode_case(candidate))
            except InvalidCase:
                continue
            assert decoded == candidate, propose.__name__
            assert candidate.domain == case.domain
    assert encode_case(case) == before


@given(cases)
def test_shrinking_ends_whatever_fails(case: Case) -> None:
    shrunk = shrink(case, failed(), when(lambda _: True), max_executions=3000)
    assert shrunk.complete
    assert shrunk.executions < 400
    assert decode_case(encode_case(shrunk.case)) == shrunk.case, "a file of it can be read"
    layout = shrunk.case.layout
    assert (len(shrunk.case.program), len(layout.groups), layout.num_states) == (1, 1, 1)
    if shrunk.case.domain == "reachable":
        require_reachable(shrunk.case)
    assert len(encode_case(shrunk.case)) <= len(encode_case(case))


@given(cases)
def test_the_result_keeps_its_signature_and_its_domain(case: Case) -> None:
    def judge(candidate: Case) -> Outcome:
        wide = any(len(operation.rows) >= 2 for operation in candidate.program)
        return failed() if wide else failed(OTHER) if candidate.layout.num_states > 1 else PASSED

    outcome = judge(case)
    if outcome.signature is None:
        return
    shrunk = shrink(case, outcome, judge, max_executions=3000)
    assert judge(shrunk.case).signature == outcome.signature == shrunk.result.outcome.signature
    assert shrunk.case.domain == case.domain
    for other, seen in shrunk.others:
        assert seen.outcome.signature != outcome.signature
        assert judge(other).signature == seen.outcome.signature
    if outcome.signature == ONE:
        assert max(len(operation.rows) for operation in shrunk.case.program) == 2


def test_numbers_reach_the_smallest_that_fails(make_case: Callable[..., Case]) -> None:
    rows = (PrecopyRow(slot=0, source_column=3, destination_column=1, bias=0),)
    case = make_case(Precopy(runner="V1", rows=rows), tables=(((1, 2, 1, 2),), ((3, 4, 3, 4),)))
    shrunk = shrink(case, failed(), when(lambda c: any(r.source_column >= 2 for o in c.program for r in o.rows)))
    (row,) = shrunk.case.program[0].rows
    assert (row.source_column, row.destination_column, row.bias) == (2, 0, 0)


def test_unused_columns_are_removed_and_used_ones_stay(make_case: Callable[..., Case]) -> None:
    rows = (PrecopyRow(slot=0, source_column=0, destination_column=3, bias=1),)
    case = make_case(Precopy(runner="V1", rows=rows), tables=(((1, 2, 2, 4),), ((3, 4, 4, 1),)))

    def judge(candidate: Case) -> bool:
        row = candidate.program[0].rows[0]
        cells = [table[0][:4] for table in candidate.contents.tables]
        used = [(c[row.source_column], c[row.source_column + row.bias], c[row.destination_column]) for c in cells]
        return row.bias == 1 and used == [(1, 2, 4), (3, 4, 1)]

    assert judge(case)
    shrunk = shrink(case, failed(), when(judge))
    (row,) = shrunk.case.program[0].rows
    assert (row.source_column, row.destination_column) == (0, 2)
    assert shrunk.case.contents.tables == (((1, 2, 4),), ((3, 4, 1),))


def test_candidates_outside_the_preconditions_cost_nothing(make_case: Callable[..., Case]) -> None:
    def judge(candidate: Case) -> Outcome:
        raise InvalidCase("no")

    case = make_case()
    shrunk = shrink(case, failed(), judge)
    assert (shrunk.executions, shrunk.case, shrunk.complete) == (0, case, True)


def test_candidates_beyond_a_bound_are_not_judged(make_case: Callable[..., Case]) -> None:
    """A decode step with the same running state would have computed one token more than a file may have."""
    rows = (PostprocessRow(slot=0, scheduled=3, computed=2**30, draft=1, accepted=1, state_column=0),)
    case = make_case(Postprocess(runner="V1", rows=rows))
    assert decode_case(encode_case(case)) == case

    largest = 0

    def judge(candidate: Case) -> Outcome:
        nonlocal largest
        largest = max(largest, candidate.program[0].rows[0].computed)  # type: ignore[union-attr]
        return failed() if candidate.program[0].rows[0].running > 2**30 else PASSED  # type: ignore[union-attr]

    shrunk = shrink(case, failed(), judge)
    assert shrunk.executions > 5
    assert largest == 2**30
    assert decode_case(encode_case(shrunk.case)) == shrunk.case


def test_no_candidate_is_judged_twice(make_case: Callable[..., Case]) -> None:
    seen: list[bytes] = []

    def judge(candidate: Case) -> Outcome:
        seen.append(encode_case(candidate))
        return failed() if candidate.layout.num_states > 1 else PASSED

    shrunk = shrink(make_case(), failed(), judge)
    assert len(set(seen)) == len(seen) == shrunk.executions


def test_other_bugs_on_the_way_are_kept(make_case: Callable[..., Case]) -> None:
    def judge(candidate: Case) -> Outcome:
        return failed() if len(candidate.layout.groups) == 2 else failed(OTHER)

    shrunk = shrink(make_case(), failed(), judge)
    assert len(shrunk.case.layout.groups) == 2
    ((other, result),) = shrunk.others
    assert result.outcome.signature == OTHER
    assert len(other.layout.groups) == 1


def test_a_total_case_need_not_be_reachable(make_case: Callable[..., Case]) -> None:
    rows = (PrecopyRow(slot=0, source_column=3, destination_column=0, bias=0),)
    case = make_case(Precopy(runner="V1", rows=rows), tables=(((1, 2, 1, 2),), ((3, 4, 3, 4),)))
    with pytest.raises(InvalidCase, match="not reachable"):
        require_reachable(
            Case(**{name: getattr(case, name) for name in case.__struct_fields__} | {"domain": "reachable"})
        )
    shrunk = shrink(case, failed(), when(lambda c: isinstance(c.program[0], Precopy | Postprocess)))
    assert shrunk.case.domain == "total"
    assert shrunk.executions > 5


def test_hangs_are_shrunk_with_little_patience() -> None:
    hang = Signature("precopy", "isolation", "hang", "process", "-")
    recipe = Recipe(seed=3, domains=("reachable",), operations=("precopy",), scale="small")
    case = next(case for case in (case_at(recipe, i) for i in range(100)) if len(case.program[0].rows) > 1)
    hung = []

    def judge(candidate: Case) -> Outcome:
        hung.append(candidate)
        return failed(hang)

    shrunk = shrink(case, failed(hang), judge)
    assert len(hung) == HANGS == shrunk.executions
    assert not shrunk.complete
    assert len(shrunk.case.program[0].rows) == 1


def test_extra_tensors_stay_where_they_matter() -> None:
    recipe = Recipe(seed=0, domains=("total",), operations=("preprocess",), scale="small")
    case = next(
        case for case in (case_at(recipe, 16 * i) for i in range(60)) if sum(1 for _ in case.layout.extras()) > 1
    )
    shrunk = shrink(case, failed(), when(lambda candidate: any(True for _ in candidate.layout.extras())))
    assert shrunk.complete
    assert sum(1 for _ in shrunk.case.layout.extras()) == 1
    assert len(list(shrunk.case.layout.states())) == 1
    assert not list(shrink(case, failed(), when(lambda _: True)).case.layout.extras())


RACE = Signature("precopy", "race", "between-programs", "conv", "DS")


def race_in(*kinds: str) -> Callable[[Case], Outcome]:
    """Programs race where there is a state of one of the kinds: that is what the signature says, conv states first."""

    def judge(case: Case) -> Outcome:
        states = [state for _, state in case.layout.states()]
        conv = case.layout.conv_layout
        if conv in kinds and any(isinstance(state, ConvState) for state in states):
            return failed(msgspec.structs.replace(RACE, conv_layout=conv))
        if "temporal" in kinds and not all(isinstance(state, ConvState) for state in states):
            return failed(msgspec.structs.replace(RACE, object="temporal", conv_layout="-"))
        return PASSED

    return judge


@pytest.mark.parametrize("kinds", [("DS", "SD", "temporal"), ("DS", "SD"), ("DS", "temporal"), ("DS",)])
def test_a_race_stays_in_the_kind_of_state_that_it_was_found_in(
    kinds: tuple[str, ...],
    make_case: Callable[..., Case],
    make_layout: Callable[..., Layout],
) -> None:
    """Whatever else a smaller case shows: that may have another cause, and is kept as another finding."""
    rows = (PrecopyRow(slot=0, source_column=0, destination_column=1, bias=0),)
    case = make_case(Precopy(runner="V1", rows=rows), layout=make_layout("DS"))
    judge = race_in(*kinds)
    outcome = judge(case)
    assert outcome.signature == RACE
    shrunk = shrink(case, outcome, judge)
    assert shrunk.result.outcome.signature == RACE == judge(shrunk.case).signature
    assert shrunk.case.layout.num_states == 1
    met = {result.outcome.signature for _, result in shrunk.others}
    assert {signature.conv_layout for signature in met if signature} == {
        {"SD": "SD", "temporal": "-"}[kind] for kind in kinds if kind != "DS"
    }


@given(cases, st.integers(0, 2**32 - 1))
def test_every_step_makes_a_case_smaller(case: Case, odd: int) -> None:
    """For any failure: cases that are not smaller are not even run."""
    seen = [size(case)]

    def judge(candidate: Case) -> Outcome:
        assert size(candidate) < seen[-1]
        if (zlib.crc32(encode_case(candidate)) ^ odd) % 3:
            return PASSED
        seen.append(size(candidate))
        return failed()

    shrink(case, failed(), judge, max_executions=200)


def test_cases_that_differ_have_different_sizes(make_case: Callable[..., Case]) -> None:
    one, other = make_case(), make_case(payload_seed=8)
    assert size(one) < size(other)
    assert size(one) == size(make_case())

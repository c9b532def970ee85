"""The Hypothesis engine: the same generators and the same bias as the random one, behind `@given` and in campaigns."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, Verbosity, find, given, settings
from hypothesis import strategies as st

from harness.case import Case, Postprocess, decode_case, encode_case
from harness.check.operations.registry import expect
from harness.check.session import Session
from harness.engines.hypothesis import HypothesisDraw, cases, explore
from harness.engines.random import Recipe, case_at
from harness.generators.draw import Draw, RandomDraw
from harness.generators.reachability import require_reachable
from harness.kernels.executors.registry import create_executor
from harness.kernels.targets.registry import load_target
from harness.memory import initial_image, plan_memory
from harness.regimes import regimes_of

RECIPE = Recipe(3, ("reachable", "total"), ("postprocess", "precopy"), "small")


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(cases(("reachable", "total"), scale="full"))
def test_every_case_is_valid(case: Case) -> None:
    assert decode_case(encode_case(case)) == case
    if case.domain == "reachable":
        require_reachable(case)
    plan = plan_memory(case, 64)
    image = initial_image(case, plan)
    for index in range(len(case.program)):
        image = expect(case, plan, index, image).image


@given(cases("total", ("postprocess",)))
def test_domain_and_operations_are_those_asked_for(case: Case) -> None:
    assert case.domain == "total"
    assert all(isinstance(operation, Postprocess) for operation in case.program)


def drawn(count: int, decide: Callable[[Draw], int]) -> Iterator[Counter[int]]:
    """The results of many decisions under either engine.

    Hypothesis makes many of them for each example: it never tries the same example twice, which is a bias as well.
    """
    yield Counter(decide(RandomDraw(str(i))) for i in range(count))
    found: Counter[int] = Counter()

    @settings(max_examples=count // 40, database=None, phases=[Phase.generate], deadline=None)
    @given(st.data())
    def collect(data: st.DataObject) -> None:
        draw = HypothesisDraw(data.draw)
        found.update(decide(draw) for _ in range(40))

    collect()
    yield found


def test_the_bias_to_boundary_values_is_in_the_draw_and_not_in_an_engine() -> None:
    """An engine's integers from 1000 to 1900 are seldom boundary values; `boundary` makes them the rule."""
    marked = {1000, 1900, 1001, 1899, 1500}
    for plain in drawn(4000, lambda draw: draw.integer(1000, 1900)):
        assert sum(plain[value] for value in marked) < 0.3 * plain.total()
    for biased in drawn(4000, lambda draw: draw.boundary(1000, 1900, (1500,))):
        assert sum(biased[value] for value in marked) > 0.6 * biased.total()
        assert all(biased[value] for value in marked)


@pytest.mark.parametrize("probability", [0.02, 0.3, 0.85])
def test_a_probability_is_about_what_it_says(probability: float) -> None:
    for found in drawn(4000, lambda draw: int(draw.boolean(probability))):
        assert abs(found[1] / found.total() - probability) < 0.1


def test_bounds_and_certainty_hold() -> None:
    @settings(max_examples=20, database=None)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        draw = HypothesisDraw(data.draw)
        assert draw.integer(7, 7) == 7
        assert -2 <= draw.integer(-2, 1) <= 1
        assert (draw.boolean(0.0), draw.boolean(1.0)) == (False, True)
        with pytest.raises(ValueError, match="no integer"):
            draw.integer(1, 0)

    check()


def collect(count: int, stop_after: int = 10**9, start: int = 0) -> list[bytes]:
    found: list[bytes] = []

    def judge(index: int, case: Case, seconds: float) -> bool:
        assert index == start + len(found)
        assert seconds > 0
        found.append(encode_case(case))
        return len(found) < stop_after

    end = explore(RECIPE, start, start + count, float("inf"), judge)
    assert end == start + len(found)
    return found


def test_a_search_is_repeatable_numbered_and_ends_on_request() -> None:
    first = collect(40)
    assert len(first) == 40
    assert len(set(first)) == 40
    assert collect(40) == first
    assert collect(40, stop_after=7) == first[:7]
    assert collect(40, start=1) != first


def test_a_search_ends_at_its_deadline() -> None:
    assert explore(RECIPE, 5, 100, time.monotonic() - 1, lambda *_: True) == 5


def test_what_a_judge_raises_is_not_taken_for_a_failing_example() -> None:
    calls = []

    def judge(index: int, case: Case, seconds: float) -> bool:
        calls.append(index)
        raise KeyError("no such thing")

    with pytest.raises(KeyError):
        explore(RECIPE, 0, 50, float("inf"), judge)
    assert calls == [0]


@pytest.mark.long
def test_both_engines_reach_the_same_regimes() -> None:
    """With few, small cases: what one engine reaches often, the other reaches as well."""
    searched: Counter[str] = Counter()

    def judge(index: int, case: Case, seconds: float) -> bool:
        searched.update(regimes_of(case))
        return True

    explore(RECIPE, 0, 250, float("inf"), judge)
    random: Counter[str] = Counter()
    for index in range(0, 250 * 16, 16):  # a layout for each case, as in the search
        random.update(regimes_of(case_at(RECIPE, index)))
    assert len(searched) > 40
    assert [name for name, count in random.items() if count >= 25 and not searched[name]] == []


@pytest.fixture(scope="module")
def mutated(executor_name: str) -> Session:
    executor = create_executor(executor_name)
    return Session(load_target("builtin+lost-reset", executor), executor)


@pytest.mark.slow
@pytest.mark.long
def test_a_property_finds_a_planted_fault_and_hypothesis_shrinks_it(mutated: Session) -> None:
    """As a test with `@given` would: the final example is small in Hypothesis's own order."""
    found = find(
        cases("total", ("postprocess",)),
        lambda case: mutated.check(case).failure is not None,
        settings=settings(max_examples=400, database=None, deadline=None, verbosity=Verbosity.quiet),
    )
    outcome = mutated.check(found)
    assert str(outcome.signature).startswith("postprocess/memory/wrong-")
    (operation,) = found.program
    assert len(operation.rows) == 1


Command = Callable[..., Any]


@pytest.mark.long
def test_a_campaign_finds_shrinks_and_replays(harness: Command, tmp_path: Path) -> None:
    done = harness(
        *("run", "--engine", "hypothesis", "--target", "builtin+lost-reset", "--ops", "postprocess"),
        *("--cases", 60, "--scale", "small", "--domain", "total", "--json"),
    )
    assert done.returncode == 1, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["engine"], summary["cases"]) == ("hypothesis", 60)
    assert all(finding["shrink"]["complete"] for finding in summary["findings"])
    path = tmp_path / summary["findings"][0]["repro"]
    repro = json.loads(path.read_text())
    assert repro["origin"]["engine"] == "hypothesis"
    assert len(repro["case"]["program"][0]["rows"]) == 1
    assert harness("replay", path).returncode == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["findings"]  # Hypothesis leaves nothing behind here


@pytest.mark.long
def test_fail_fast_ends_a_search(harness: Command) -> None:
    done = harness(
        *("run", "--engine", "hypothesis", "--target", "builtin+wrong-destination", "--ops", "precopy"),
        *("--cases", 500, "--scale", "small", "--fail-fast", "--no-shrink", "--json"),
    )
    assert done.returncode == 1
    assert json.loads(done.stdout)["cases"] < 100


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("--engine", "hypothesis", "-j", 2), "one worker"), (("--engine", "magic"), "unknown engine 'magic'")],
)
def test_bad_usage_is_refused(harness: Command, arguments: tuple[object, ...], message: str) -> None:
    done = harness("run", "--cases", 1, *arguments)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.replace("│", " ").split())

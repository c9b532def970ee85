"""Conformance checks: right executors and targets of other packages pass, and deviations are reported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.kernels.executors import registry
from harness.kernels.executors.registry import UnavailableExecutor, executor_class, executor_names
from harness.testing import NotConforming, executor_agrees, target_conforms
from harness.testing.variants import VARIANTS, cases_of

needs_native = pytest.mark.skipif(executor_class("native").unavailable() is not None, reason="no native executor here")

EXECUTORS = '''
from harness.kernels.executors.native.executor import NativeExecutor


class Other(NativeExecutor):
    name = "other"


class Skipping(NativeExecutor):
    """Leaves out every second launch."""

    name = "skipping"

    def launch(self, variant, grid, arguments):
        self.seen = getattr(self, "seen", 0) + 1
        if self.seen % 2:
            super().launch(variant, grid, arguments)
        else:
            self.launches += 1


class Counting(NativeExecutor):
    """Counts every launch twice."""

    name = "counting"

    def launch(self, variant, grid, arguments):
        super().launch(variant, grid, arguments)
        self.launches += 1


class Absent(NativeExecutor):
    name = "absent"

    @classmethod
    def unavailable(cls):
        return "it needs another machine"
'''


@pytest.fixture
def others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installed package that provides executors."""
    (tmp_path / "other_executors.py").write_text(EXECUTORS, encoding="utf-8")
    described = tmp_path / "other_executors-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: other-executors\nVersion: 1.0\n", encoding="utf-8"
    )
    names = "".join(
        f"{name} = other_executors:{name.title()}\n" for name in ("other", "skipping", "counting", "absent")
    )
    (described / "entry_points.txt").write_text(f"[{registry.ENTRY_POINTS}]\n{names}", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    registry._classes.cache_clear()
    yield
    registry._classes.cache_clear()


@pytest.mark.usefixtures("others")
def test_executors_of_other_packages_come_after_ours() -> None:
    assert executor_names() == ("cuda", "native", "interpreter", "other", "skipping", "counting", "absent")
    assert registry.default_executor_name() in executor_names()[:3]


@pytest.mark.long
@needs_native
@pytest.mark.usefixtures("others")
def test_a_right_executor_of_another_package_agrees() -> None:
    cases = [case for variant in VARIANTS[:4] for case in cases_of(variant, 1)]
    judgements = executor_agrees("other", cases=cases)
    assert len(judgements) == 2 * len(cases)
    assert {row.status for row in judgements} == {"pass", "fail"}


@pytest.mark.long
@needs_native
@pytest.mark.usefixtures("others")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "skipping",
            r"^builtin, case \d+: skipping says postprocess fail \(postprocess/memory/\S+\) with 1 launches, ",
        ),
        (
            "counting",
            r"^builtin, case 0: counting says postprocess pass with 2 launches, native postprocess pass with 1",
        ),
    ],
)
def test_an_executor_that_differs_is_reported(name: str, message: str) -> None:
    cases = [case for variant in VARIANTS[:4] for case in cases_of(variant, 2)]
    with pytest.raises(NotConforming, match=message):
        executor_agrees(name, ("builtin",), cases=cases)


@needs_native
@pytest.mark.usefixtures("others")
def test_an_executor_that_cannot_run_here_is_not_a_disagreement() -> None:
    with pytest.raises(UnavailableExecutor, match=r"^executor absent is not available: it needs another machine$"):
        executor_agrees("absent")


@pytest.mark.long
@needs_native
@pytest.mark.usefixtures("others")
def test_cases_that_show_no_fault_prove_nothing() -> None:
    (case,) = cases_of(VARIANTS[0], 1)
    with pytest.raises(
        NotConforming, match=r"^builtin\+ignores-skip: no case shows the planted fault on other or native"
    ):
        executor_agrees("other", ("builtin+ignores-skip",), cases=[case])


def test_every_variant_has_a_case() -> None:
    for variant in VARIANTS:
        (case,) = cases_of(variant, 1)
        assert variant.of(case)
    assert not VARIANTS[0].of(cases_of(VARIANTS[-1], 1)[0])


def test_a_target_says_what_it_lacks(broken_targets: Path, executor_name: str) -> None:
    answers = target_conforms("broken:lack", executor=executor_name, operations=("precopy", "advance"), cases=4)
    assert {name: (answer.judged, answer.lacking) for name, answer in answers.items()} == {
        "precopy": (0, 8),
        "advance": (0, 8),
    }


def test_a_fault_is_reported_with_its_case(executor_name: str) -> None:
    message = r"^builtin\+wrong-group, precopy, \w+ case \d+: precopy/memory/wrong-bytes/\S+: group "
    with pytest.raises(NotConforming, match=message) as caught:
        target_conforms("builtin+wrong-group", executor=executor_name, operations=("precopy",))
    assert "\n" not in str(caught.value)


def test_a_target_that_takes_its_process_down_is_reported(broken_targets: Path, executor_name: str) -> None:
    with pytest.raises(NotConforming, match=r"^broken:exit, precopy, \w+ case \d+: precopy/isolation/exit-3/process/-"):
        target_conforms("broken:exit", executor=executor_name, operations=("precopy",), cases=64)


def test_a_fault_of_the_harness_is_reported_as_such(broken_targets: Path, executor_name: str) -> None:
    message = r"^broken:incomplete, precopy, \w+ case \d+: .*TargetIncomplete: no stand-in for something$"
    with pytest.raises(NotConforming, match=message):
        target_conforms("broken:incomplete", executor=executor_name, operations=("precopy",), cases=64)

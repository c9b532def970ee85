"""Fixtures of tests that drive a release's own scheduler: one child process of it serves them all.

They need the optional packages and the release's sources. Where either is missing they are skipped with the reason,
and fail where HARNESS_REQUIRE_RELEASE is set, as in CI.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.case import Case, decode_case
from harness.issues.registry import DEFAULT_FIXES
from harness.kernels.targets.vllm.scheduling.sources import require_packages, whole_tree
from harness.refusal import UnknownTarget
from harness.sequences.controls import Controls
from harness.sequences.kernels import Beside, KernelChoice
from harness.sequences.recipe import SequenceRecipe
from harness.sequences.result import RESULTS, RunResult
from harness.sequences.worker import SequenceWorker, recipe_text
from harness.worker.messages import CaseResult

NEWEST = "vllm==0.33.0"
OLDER = "vllm==0.27.1"
REQUIRE_VARIABLE = "HARNESS_REQUIRE_RELEASE"

STREAM = SequenceRecipe(seed=21)
STREAM_SEQUENCES = 24


def driven(release: str) -> str:
    """A release whose scheduler can be driven here."""
    try:
        require_packages()
        whole_tree(release)
    except UnknownTarget as error:
        if os.environ.get(REQUIRE_VARIABLE) == "1":
            pytest.fail(f"{REQUIRE_VARIABLE} is set, but {error}")
        pytest.skip(str(error))
    return release


@pytest.fixture(scope="session")
def newest() -> str:
    """The newest release."""
    return driven(NEWEST)


@pytest.fixture(scope="session")
def older() -> str:
    """One with issues that the newest has not."""
    return driven(OLDER)


@pytest.fixture(scope="session")
def require_release() -> Callable[[str], str]:
    """A function that returns the name of a release once its scheduler can be driven here, and skips otherwise."""
    return driven


@pytest.fixture(scope="session")
def case_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the scheduler process leaves kernel cases."""
    return tmp_path_factory.mktemp("kernel-cases")


@pytest.fixture(scope="session")
def scheduler(newest: str, case_folder: Path) -> Iterator[SequenceWorker]:
    """A process that drives the newest release, the builtin kernels beside it on bytes."""
    beside = Beside(KernelChoice("builtin", "native"), str(case_folder))
    with SequenceWorker(newest, beside) as child:
        child.wait_ready()
        yield child


@pytest.fixture(scope="session")
def stream(scheduler: SequenceWorker) -> list[RunResult]:
    """Results of some sequences with all known issues kept clear of."""
    scheduler.send_range(recipe_text(STREAM, Controls(fixes=DEFAULT_FIXES)), 0, STREAM_SEQUENCES)
    results = []
    while isinstance(heard := scheduler.receive(), CaseResult):
        results.append(RESULTS.decode(heard.result))
    return results


@pytest.fixture(scope="session")
def stream_cases(stream: list[RunResult], case_folder: Path) -> list[Case]:
    """What their kernels were asked for, as kernel cases."""
    assert stream
    return [decode_case(file.read_bytes()) for file in sorted(case_folder.glob("*.json"))]

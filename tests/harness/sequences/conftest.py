"""Fixtures of tests that drive a release's own scheduler, all in one child process.

They need the optional packages and the release's sources (tests/releases.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.case import Case, decode_case
from harness.issues.registry import DEFAULT_FIXES
from harness.sequences.controls import Controls
from harness.sequences.kernels import KernelChoice, KernelSide
from harness.sequences.recipe import SequenceRecipe
from harness.sequences.result import RESULTS, RunResult
from harness.sequences.worker import SequenceWorker, recipe_text
from harness.worker.messages import CaseResult
from tests.releases import with_scheduler

NEWEST = "vllm==0.33.0"
OLDER = "vllm==0.27.1"

STREAM = SequenceRecipe(seed=21)
STREAM_SEQUENCES = 28


@pytest.fixture(scope="session")
def newest() -> str:
    """The newest release."""
    return with_scheduler(NEWEST)


@pytest.fixture(scope="session")
def older() -> str:
    """A release with issues that the newest does not have."""
    return with_scheduler(OLDER)


@pytest.fixture(scope="session")
def case_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the scheduler process leaves kernel cases."""
    return tmp_path_factory.mktemp("kernel-cases")


@pytest.fixture(scope="session")
def scheduler(newest: str, case_folder: Path) -> Iterator[SequenceWorker]:
    """A process that drives the newest release, and the builtin kernels on bytes."""
    kernel_side = KernelSide(KernelChoice("builtin", "native"), str(case_folder))
    with SequenceWorker(newest, kernel_side) as child:
        child.wait_ready()
        yield child


@pytest.fixture(scope="session")
def stream(scheduler: SequenceWorker) -> list[RunResult]:
    """Results of some sequences with all known issues avoided."""
    scheduler.send_range(recipe_text(STREAM, Controls(fixes=DEFAULT_FIXES)), 0, STREAM_SEQUENCES)
    results = []
    while isinstance(reply := scheduler.receive(), CaseResult):
        results.append(RESULTS.decode(reply.result))
    return results


@pytest.fixture(scope="session")
def stream_cases(stream: list[RunResult], case_folder: Path) -> list[Case]:
    """The calls of their kernels, as kernel cases."""
    assert stream
    return [decode_case(file.read_bytes()) for file in sorted(case_folder.glob("*.json"))]

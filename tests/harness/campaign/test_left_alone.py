"""A campaign that is left alone completes its count, whatever the code under test does to its process: each harm is
found, named, and made smaller."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from harness.campaign.events import FindingFound, FindingKept
from harness.campaign.settings import Settings
from harness.case import Precopy
from harness.shrink.cases.size import size
from harness.worker.losses import WorkerRefused
from harness.worker.memory import MEMORY_LIMIT, in_words, resident_bytes
from tests.harness.campaign.conftest import CaseKit

if TYPE_CHECKING:
    from tests.harness.campaign.conftest import NumberKit, Ran

Run = Callable[..., "Ran"]
Make = Callable[..., Settings]
COUNT = 40

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@linux
@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "signature"),
    [
        ("segfault", "precopy/isolation/crash-SIGSEGV/process/-"),
        ("exit", "precopy/isolation/exit-3/process/-"),
        ("hang", "precopy/isolation/hang/process/-"),
        ("raise", "precopy/exception/RuntimeError/call/-"),
        ("allocate", "precopy/isolation/memory-limit/process/-"),
    ],
)
def test_what_host_code_does_to_its_process_is_found_and_made_smaller(
    monkeypatch: pytest.MonkeyPatch, executor_name: str, run: Run, settings: Make, how: str, signature: str
) -> None:
    kit = CaseKit(monkeypatch, executor_name)
    monkeypatch.setitem(CaseKit.harms, how, how)  # type: ignore[misc]
    subject, (first, _) = kit.harmed(how, limit=5.0 if how == "hang" else 60.0)
    ran = run(subject, settings(shrink=True, shrink_executions=6, memory=3_000_000_000))
    assert ran.judged == list(range(COUNT))
    ((found, index, cases, repro),) = ran.found
    assert (found, index, cases) == (signature, first, 2)
    assert ran.summary.harness_failures == 0
    assert ran.summary.exit_status == 1
    drawn = subject.draw(first)
    case = subject.case_of(repro)
    assert subject.encode(case) != subject.encode(drawn)
    assert [type(one) for one in case.program] == [Precopy], "alone"
    assert size(case) < size(drawn)


@linux
@pytest.mark.long
@pytest.mark.parametrize("how", ["fault-late", "fault-and-raise"])
def test_a_fault_that_the_device_reports_late_belongs_to_the_case_that_caused_it(
    monkeypatch: pytest.MonkeyPatch, executor_name: str, run: Run, settings: Make, how: str
) -> None:
    """Nothing that comes after it in the same process is judged, and errors that follow from it are not findings."""
    kit = CaseKit(monkeypatch, executor_name)
    monkeypatch.setitem(CaseKit.harms, how, how)  # type: ignore[misc]
    subject, (first, _) = kit.harmed(how)
    ran = run(subject, settings())
    assert ran.judged == list(range(COUNT))
    ((signature, index, cases, repro),) = ran.found
    assert (signature, index, cases) == ("precopy/isolation/device-fault/process/-", first, 2)
    assert ran.summary.harness_failures == 0
    assert any("Assertion `offset < size` failed" in line for line in repro.evidence.details)


@pytest.fixture
def loaded(numbers: NumberKit) -> int:
    """The resident size of a worker that is ready."""
    with numbers.right().new_worker() as worker:
        worker.wait_ready()
        return resident_bytes(worker._process.pid)


@linux
@pytest.mark.long
def test_a_worker_over_its_memory_limit_is_a_finding(numbers: NumberKit, run: Run, settings: Make, loaded: int) -> None:
    numbers.harms = {**numbers.harms, "allocate": "allocate"}  # type: ignore[misc]
    subject, (first, _) = numbers.harmed("allocate")
    ran = run(subject, settings(shrink=True, memory=loaded + 400_000_000))
    assert ran.judged == list(range(COUNT))
    ((signature, index, cases, repro),) = ran.found
    assert (signature, index, cases) == (numbers.signature_of_loss.format(MEMORY_LIMIT), first, 2)
    assert subject.case_of(repro) == [97], "what allocates is alone in its file"
    (found,) = [event for event in ran.events if isinstance(event, FindingFound)]
    (kept,) = [event for event in ran.events if isinstance(event, FindingKept)]
    assert found.index == first
    assert kept.count == 2
    assert "a worker went over its memory limit: its work is repeated in a new one" in ran.notices
    assert ran.summary.exit_status == 1


@linux
def test_memory_that_earlier_cases_took_is_no_finding_of_a_later_one(
    numbers: NumberKit, run: Run, settings: Make, loaded: int
) -> None:
    """The second case goes over the limit only because the first one had kept something."""
    numbers.harms = {**numbers.harms, "hoard": "hoard"}  # type: ignore[misc]
    subject, _ = numbers.harmed("hoard")
    ran = run(subject, settings(memory=loaded + 450_000_000))
    assert ran.judged == list(range(COUNT))
    assert (ran.found, ran.summary.harness_failures) == ([], 0)
    assert "a worker went over its memory limit: its work is repeated in a new one" in ran.notices


@linux
def test_a_limit_below_what_loading_takes_is_refused(numbers: NumberKit, run: Run, settings: Make) -> None:
    with pytest.raises(WorkerRefused, match=r"^a worker takes more memory to load .* --memory-limit allows: 5 MB$"):
        run(numbers.right(), settings(memory=5_000_000))


@linux
def test_sizes() -> None:
    assert resident_bytes(os.getpid()) > 10_000_000
    assert resident_bytes(2**30) == 0
    assert [in_words(size) for size in (999, 12_000, 1_500_000, 2_000_000_000, 3 * 10**12)] == [
        "999 bytes",
        "12 kB",
        "1.5 MB",
        "2 GB",
        "3 TB",
    ]

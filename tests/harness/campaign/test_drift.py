"""Properties that campaigns of one subject once had and those of another lacked: now all of them have them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from harness.campaign.events import CampaignStarted, CaseJudged, Event
from harness.campaign.settings import Settings
from harness.kernels.cache_directory import cache_directory
from harness.sequences.judge import AboutDefaults
from harness.shrink.driver import HANGS, shrink
from harness.subject.registry import AnySubject
from harness.worker import process
from harness.worker.losses import WorkerLost
from harness.worker.process import WorkerProcess
from tests.processes import environment

if TYPE_CHECKING:
    from tests.harness.campaign.conftest import Kit, Ran

Run = Callable[..., "Ran"]
Make = Callable[..., Settings]
COUNT = 40

pytestmark = pytest.mark.kernel_cases_too
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def listening(subject: AnySubject, monkeypatch: pytest.MonkeyPatch) -> list[WorkerProcess]:
    """The workers that a subject makes from now on."""
    workers: list[WorkerProcess] = []
    make = subject.new_worker

    def new_worker(*arguments: Any) -> WorkerProcess:
        workers.append(make(*arguments))
        return workers[-1]

    monkeypatch.setattr(subject, "new_worker", new_worker)
    return workers


@linux
@pytest.mark.filterwarnings("ignore:.* cannot be written:UserWarning")
def test_a_temporary_cache_is_passed_to_workers(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise each worker would make its own, and one that is ended by a signal would leave it behind."""
    monkeypatch.setenv("HARNESS_CACHE_DIR", os.devnull)
    with kit.right().new_worker() as worker:
        assert environment(worker._process.pid)["HARNESS_CACHE_DIR"] == str(cache_directory())
    assert cache_directory().is_dir()


@linux
def test_the_users_shell_does_not_choose_the_interpreter(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with kit.right().new_worker() as worker:
        assert "TRITON_INTERPRET" not in environment(worker._process.pid)


def test_warnings_of_a_worker_reach_the_campaign(kit: Kit, run: Run, settings: Make) -> None:
    subject, _ = kit.harmed("warn")
    ran = run(subject, settings())
    assert ran.judged == list(range(COUNT))
    assert "something to know" in ran.notices
    assert (ran.found, ran.summary.harness_failures) == ([], 0)


def test_shrinking_what_hangs_ends_after_some_hangs(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each candidate takes its whole time limit."""
    subject, (first, _) = kit.harmed("hang")
    loss = WorkerLost("hang", first, "precopy", "")
    asked: list[bytes] = []

    def judge(worker: WorkerProcess, case: bytes, *_: Any, **__: Any) -> bytes:
        asked.append(case)
        raise loss

    monkeypatch.setattr(WorkerProcess, "judge", judge)
    monkeypatch.setattr("harness.sequences.classifying.defaults_of", lambda worker: AboutDefaults(None))
    case, result = subject.draw(first), subject.lost(loss)
    key = subject.key(case, result)
    assert key is not None
    worker: Any = object.__new__(WorkerProcess)
    shrunk = shrink(case, result, subject.plan(worker, key, result), 1000)
    assert (shrunk.executions, shrunk.complete) == (HANGS, False)
    assert len(asked) <= 2 * HANGS
    assert subject.key(shrunk.case, shrunk.result) == key


@pytest.mark.parametrize(("cases", "workers"), [(3, 1), (COUNT, 3)])
def test_workers_that_would_get_no_case_are_not_started(
    kit: Kit, run: Run, settings: Make, monkeypatch: pytest.MonkeyPatch, cases: int, workers: int
) -> None:
    subject = kit.right()
    subject.block = 16
    started = listening(subject, monkeypatch)
    announced: list[int] = []

    def handle(event: Event) -> None:
        if isinstance(event, CampaignStarted):
            announced.append(event.workers)

    run(subject, settings(cases=cases, workers=16), handle)
    assert (len(started), announced) == (workers, [workers])


@linux
def test_a_worker_whose_device_is_gone_is_ended_and_replaced(
    kit: Kit, run: Run, settings: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise everything that it judges after that would fail."""
    subject, (first, second) = kit.harmed("fault")
    workers = listening(subject, monkeypatch)
    numbers: dict[int, int] = {}

    def handle(event: Event) -> None:
        if isinstance(event, CaseJudged):
            numbers[event.index] = workers[0]._process.pid

    ran = run(subject, settings(), handle)
    assert ran.judged == list(range(COUNT))
    ((signature, index, cases, _),) = ran.found
    assert (signature, index, cases) == (kit.signature_of_loss.format("device-fault"), first, 2)
    assert ran.summary.harness_failures == 0
    processes = [
        {numbers[i] for i in part} for part in (range(first), range(first + 1, second), range(second + 1, COUNT))
    ]
    assert len(set.union(*processes)) == 3, "one before each fault, and one after them"


@pytest.mark.parametrize("error", [BrokenPipeError, ConnectionResetError])
def test_a_worker_that_is_gone_when_it_is_asked_is_replaced(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, error: type[OSError]
) -> None:
    """Which of the two errors is raised depends on whether the worker had unread data."""
    subject, notices = kit.right(), list[str]()
    send, sent = process.send, list[object]()
    with subject.new_worker(notices.append) as worker:
        worker.wait_ready()

        def broken(connection: Any, message: Any) -> None:
            sent.append(message)
            if len(sent) == 1:
                worker._process.send_signal(signal.SIGKILL)
                raise error
            send(connection, message)

        monkeypatch.setattr(process, "send", broken)
        case = subject.draw(0)
        assert subject.key(case, subject.judge(worker, case)) is None
    assert [message == sent[0] for message in sent] == [True, True]
    assert notices == ["a worker was ended from outside (SIGKILL; is memory short?): its work is repeated"]

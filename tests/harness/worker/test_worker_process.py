"""Workers: a crash or a hang is a verdict about one case, and an unavailable target is reported in one clear line."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.case import Case, InvalidCase, Precopy, PrecopyRow
from harness.engines.random import Recipe
from harness.engines.relations import RelationPolicy
from harness.kernel_cases.recipe import ENCODER, CaseRecipe
from harness.kernel_cases.worker import CaseWorker
from harness.kernels.cache_directory import cache_directory
from harness.sequences.controls import Controls
from harness.sequences.recipe import SequenceRecipe, sequence_at
from harness.sequences.worker import SequenceWorker, recipe_text
from harness.worker import silence
from harness.worker.losses import WorkerError, WorkerLost, WorkerRefused
from harness.worker.messages import RangeDone
from tests.processes import environment

STAND_IN = Path(__file__).parents[1] / "sequences" / "stand_in_release.py"
SEED = 5

ROW = PrecopyRow(slot=0, source_column=0, destination_column=1, bias=0)
SAFE = Precopy(runner="V1", rows=(ROW,))
HARMFUL = Precopy(runner="V2", rows=(ROW,))


@pytest.fixture
def start(broken_targets: object, executor_name: str) -> Iterator[Callable[..., CaseWorker]]:
    """Starts a worker for `broken:HOW` and waits for it."""
    started: list[CaseWorker] = []

    def begin(how: str, limit: float = 60.0, **options: Any) -> CaseWorker:
        worker = CaseWorker(f"broken:{how}", executor_name, limit=limit, **options)
        started.append(worker)
        worker.wait_ready()
        return worker

    yield begin
    for worker in started:
        worker.close()


@pytest.fixture
def sequences(monkeypatch: pytest.MonkeyPatch) -> Iterator[SequenceWorker]:
    """A worker of another subject, on a stub of a release: the first sequence takes it down."""
    monkeypatch.setenv("STAND_IN", "crash:0,quit:2,break:3")
    monkeypatch.setattr(SequenceWorker, "SERVES", (str(STAND_IN), "serve"))
    with SequenceWorker("vllm==0.33.0") as worker:
        worker.wait_ready()
        yield worker


@pytest.mark.long
@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        ("segfault", "precopy/isolation/crash-SIGSEGV/process/-"),
        ("exit", "precopy/isolation/exit-3/process/-"),
        ("hang", "precopy/isolation/hang/process/-"),
    ],
)
def test_a_lost_worker_is_a_verdict(
    start: Callable[..., CaseWorker], make_case: Callable[..., Case], how: str, wanted: str
) -> None:
    worker = start(how)
    number = worker._process.pid
    assert worker.check(make_case(SAFE)).failure is None
    worker._limit = 2.0 if how == "hang" else 60.0  # nothing is compiled any more
    outcome = worker.check(make_case(SAFE, HARMFUL))
    assert str(outcome.signature) == wanted
    assert outcome.failure is not None
    assert outcome.failure.evidence is not None
    assert "\n" not in outcome.failure.evidence.summary
    if how == "segfault":
        assert any("string_at" in line for line in outcome.failure.evidence.details), "faulthandler's trace is kept"
    if how == "hang":
        assert outcome.failure.evidence.details[-2] == "no message for 2 seconds"
        where = outcome.failure.evidence.details[-1]
        assert re.fullmatch(r"the host's code is at broken_targets\.py line \d+, in hang", where)
    assert not worker.alive
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)
    if how == "exit":  # whatever ended it, a new process continues
        worker.restart()
        assert worker.alive
        assert worker.check(make_case(SAFE)).failure is None
        assert str(worker.check(make_case(HARMFUL)).signature) == wanted


@pytest.mark.long
def test_a_machine_too_busy_to_run_a_worker_is_not_a_hang(
    start: Callable[..., CaseWorker], make_case: Callable[..., Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as it waits for a processor, it cannot answer."""
    worker = start("hang", limit=1.0)
    began = time.monotonic()
    busy = 3.0
    monkeypatch.setattr(silence, "seconds_in_line", lambda process: min(time.monotonic() - began, busy))
    outcome = worker.check(make_case(HARMFUL))
    assert str(outcome.signature) == "precopy/isolation/hang/process/-"
    assert time.monotonic() - began >= busy


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_waiting_for_a_processor_is_counted() -> None:
    assert silence.seconds_in_line(os.getpid()) >= 0
    assert silence.seconds_in_line(2**30) == 0
    assert silence.seconds_run(os.getpid()) > 0
    assert silence.seconds_run(2**30) == 0


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_stopped_worker_is_not_a_hang(start: Callable[..., CaseWorker], make_case: Callable[..., Case]) -> None:
    """As long as it is stopped, it cannot answer; a hang after that is found."""
    worker = start("hang")
    assert worker.check(make_case(SAFE)).failure is None
    worker._limit = 1.0  # nothing is compiled any more
    number = worker._process.pid
    for case, wanted in ((SAFE, "None"), (HARMFUL, "precopy/isolation/hang/process/-")):
        assert not silence.is_stopped(number)
        os.kill(number, signal.SIGSTOP)
        began = time.monotonic()
        again = threading.Timer(4.0, os.kill, (number, signal.SIGCONT))
        again.start()
        outcome = worker.check(make_case(case))
        again.join()
        assert str(outcome.signature) == wanted
        assert time.monotonic() - began >= 4.0
    assert not worker.alive


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock that silence is measured with."""
    clock = Clock()
    monkeypatch.setattr(silence, "time", clock)
    return clock


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_rare_looks_also_distinguish_a_stop_from_a_hang(
    start: Callable[..., CaseWorker], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = start("exit", limit=2.5)
    monkeypatch.setattr(silence, "seconds_run", lambda process: 0.0)
    monkeypatch.setattr(silence, "seconds_in_line", lambda process: 0.0)
    clock.now += 1.0
    assert not worker.overdue()
    os.kill(worker._process.pid, signal.SIGSTOP)
    wait_until_stopped(worker._process.pid)
    for _ in range(2):
        clock.now += 1.6
        assert not worker.overdue()
    os.kill(worker._process.pid, signal.SIGCONT)
    looks = 0
    while not worker.overdue():
        looks += 1
        clock.now += 1.2
    assert looks == 4, "each counts a second at most, and none that ends a stop"


def wait_until_stopped(number: int) -> None:
    """A signal takes a moment."""
    while not silence.is_stopped(number):
        time.sleep(0.005)


@pytest.mark.parametrize(
    ("looks", "wanted"),
    [
        pytest.param([(0, 0, 0, False), (1, 0, 0, False), (1.8, 0, 0, False)], 1.8, id="waits for something"),
        pytest.param([(0, 0, 0, False), (300, 0, 0, False)], 1, id="no looks"),
        pytest.param([(0, 0, 0, False), (300, 290, 10, False)], 290, id="no looks, but it ran"),
        pytest.param([(0, 0, 0, False), (1, 0.2, 0, True), (9, 0.2, 0, True), (9.5, 0.2, 0, False)], 0.2, id="stopped"),
        pytest.param([(0, 0, 0, False), (1, 0.1, 0.9, False), (2, 0.2, 1.8, False)], 0.2, id="stands in line"),
        pytest.param([(0, 0, 0, False), (1, 0, 0, False), (2, 0.1, 1.9, False)], 0.1, id="in line, counted later"),
        pytest.param([(0, 0, 0, False), (9, 0, 0, False), (10, 0, 9, False)], 0, id="takes back no more than there is"),
        pytest.param([(5, 7, 3, False)], 0, id="first look"),
    ],
)
def test_what_counts_as_silence(
    monkeypatch: pytest.MonkeyPatch, looks: list[tuple[float, float, float, bool]], wanted: float
) -> None:
    """A look is its time, the seconds run until then, the seconds of waiting until then, and whether it is stopped."""
    now = -1.0
    monkeypatch.setattr(silence, "time", SimpleNamespace(monotonic=lambda: now))
    watch = silence.Silence(2**30)
    counted = 0.0
    for at, ran, in_line, stopped in looks:
        now = at
        monkeypatch.setattr(silence, "seconds_run", lambda process, ran=ran: ran)
        monkeypatch.setattr(silence, "seconds_in_line", lambda process, in_line=in_line: in_line)
        monkeypatch.setattr(silence, "is_stopped", lambda process, stopped=stopped: stopped)
        counted = watch.seconds()
    assert counted == pytest.approx(wanted)
    watch.end()
    assert watch.seconds() == 0


def test_a_failure_of_the_harness_names_the_case_it_was_asked_about(
    start: Callable[..., CaseWorker], make_case: Callable[..., Case]
) -> None:
    worker = start("raise")
    for index, wanted in ((7, 7), (-1, None)):
        with pytest.raises(WorkerError) as failed:
            worker.check(make_case(SAFE), ("no such relation",), index=index)
        assert failed.value.index == wanted


@pytest.mark.long
def test_a_case_whose_worker_was_killed_from_outside_is_judged_once_more(
    start: Callable[..., CaseWorker], make_case: Callable[..., Case], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BROKEN_TARGETS_MARK", str(tmp_path / "mark"))
    notices: list[str] = []
    worker = start("killed-once", on_notice=notices.append)
    assert worker.check(make_case(HARMFUL)).failure is None
    assert worker.alive
    assert [text.partition(":")[0] for text in notices] == [
        "a worker was ended from outside (SIGKILL; is memory short?)",
    ]
    assert worker.check(make_case(HARMFUL), again=False).failure is None
    (tmp_path / "mark").unlink()
    lost = worker.check(make_case(HARMFUL), again=False)
    assert str(lost.signature) == "precopy/isolation/crash-SIGKILL/process/-"


@pytest.mark.long
def test_what_dies_each_time_is_a_finding(start: Callable[..., CaseWorker], make_case: Callable[..., Case]) -> None:
    notices: list[str] = []
    worker = start("killed", on_notice=notices.append)
    assert str(worker.check(make_case(HARMFUL)).signature) == "precopy/isolation/crash-SIGKILL/process/-"
    assert len(notices) == 1
    assert not worker.alive


@pytest.mark.long
def test_a_worker_that_was_killed_while_idle_is_replaced(
    start: Callable[..., CaseWorker], make_case: Callable[..., Case]
) -> None:
    worker = start("raise")
    assert worker.check(make_case(SAFE)).failure is None
    os.kill(worker._process.pid, signal.SIGKILL)
    worker._process.wait()
    assert worker.check(make_case(SAFE)).failure is None


@pytest.mark.long
def test_memory_that_the_target_runs_out_of_is_a_verdict(
    start: Callable[..., CaseWorker], make_case: Callable[..., Case]
) -> None:
    worker = start("exhaust")
    outcome = worker.check(make_case(HARMFUL, domain="reachable"))
    assert str(outcome.signature) == "precopy/exception/MemoryError/call/-"
    assert worker.alive


@pytest.mark.long
def test_warnings_of_the_native_executor_reach_the_campaign(
    start: Callable[..., CaseWorker],
    make_case: Callable[..., Case],
    executor_name: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    if executor_name != "native":
        pytest.skip("only natively compiled kernels are cached")
    (tmp_path / "native").write_text("in the way")
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path))
    notices: list[str] = []
    worker = start("raise", on_notice=notices.append)
    assert worker.check(make_case(SAFE)).failure is None
    (text,) = notices
    assert text.startswith(f"compiled kernels are not kept in {tmp_path / 'native'}: ")


@pytest.mark.long
def test_what_a_process_survives(start: Callable[..., CaseWorker], make_case: Callable[..., Case]) -> None:
    """A write in front of an argument is seen; the worker lives, and a case it cannot judge is not a verdict."""
    worker = start("write")
    outcome = worker.check(make_case(HARMFUL))
    assert outcome.signature is not None
    assert (outcome.signature.oracle, outcome.signature.violation) == ("memory", "stray-write")
    assert outcome.signature.object == "guard"
    with pytest.raises(InvalidCase, match="one copy writes bytes that another one uses"):
        worker.check(make_case(SAFE, tables=(((1, 2),), ((2, 1),))))
    assert worker.alive
    assert worker.check(make_case(SAFE)).failure is None


@pytest.mark.long
def test_an_exception_is_a_verdict(start: Callable[..., CaseWorker], make_case: Callable[..., Case]) -> None:
    worker = start("raise")
    outcome = worker.check(make_case(HARMFUL, domain="reachable"))
    assert str(outcome.signature) == "precopy/exception/RuntimeError/call/-"
    assert outcome.failure is not None
    assert outcome.failure.evidence is not None
    assert "no such luck" in outcome.failure.evidence.summary
    assert worker.alive


def test_a_worker_whose_messages_were_not_read_is_not_overdue(
    start: Callable[..., CaseWorker], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the campaign restarts another worker, this one's answers wait: that is not a hang."""
    worker = start("exit", limit=2.5)
    monkeypatch.setattr(silence, "seconds_run", lambda process: 0.0)
    monkeypatch.setattr(silence, "seconds_in_line", lambda process: 0.0)
    recipe = Recipe(seed=0, domains=("reachable",), operations=("postprocess",), scale="small")
    worker.send_range(ENCODER.encode(CaseRecipe(recipe, RelationPolicy())), 0, 1)
    assert worker.connection.poll(600)
    for _ in range(9):
        clock.now += 1.0
        assert not worker.overdue()
    while worker.poll_message() != RangeDone(1):
        assert worker.connection.poll(600)
    for _ in range(4):
        assert not worker.overdue()
        clock.now += 1.0
    assert worker.overdue(), "without another request there is no other answer"


@pytest.mark.long
@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ("load-refused", WorkerRefused, "^this one cannot be loaded$"),
        ("load-raises", WorkerError, "loading failed"),
        ("load-exits", WorkerError, "exit-5"),
    ],
)
def test_a_target_that_does_not_load(
    start: Callable[..., CaseWorker], how: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        start(how)


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_temporary_cache_is_shared_with_workers(
    start: Callable[..., CaseWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each would make its own, and one that is ended by a signal would leave it behind."""
    monkeypatch.setenv("HARNESS_CACHE_DIR", os.devnull)
    worker = start("exit")
    assert environment(worker._process.pid)["HARNESS_CACHE_DIR"] == str(cache_directory())
    assert cache_directory().is_dir()


def test_a_worker_that_was_killed_while_it_loaded_is_replaced_once(
    make_case: Callable[..., Case], executor_name: str
) -> None:
    notices: list[str] = []
    with CaseWorker("builtin", executor_name, limit=60.0, on_notice=notices.append) as worker:
        os.kill(worker._process.pid, signal.SIGKILL)
        worker.wait_ready()
        assert worker.check(make_case(SAFE)).failure is None
    assert len(notices) == 1
    with CaseWorker("builtin", executor_name, limit=60.0) as worker:
        os.kill(worker._process.pid, signal.SIGKILL)
        with pytest.raises(WorkerError, match=r"^a worker was lost while it loaded the target \(crash-SIGKILL\)"):
            worker.wait_ready(again=False)


def test_a_lost_worker_is_replaced_by_what_is_asked_next(sequences: SequenceWorker) -> None:
    """For any subject, and only then: loading another one costs seconds, and it may never be needed."""
    lost, sound = (sequence_at(SequenceRecipe(SEED), index) for index in (0, 1))
    for _ in range(2):
        result = sequences.check(lost, Controls())
        assert result.violation is not None
        assert result.violation.kind == "process-crash-SIGABRT"
        assert not sequences.alive
    assert sequences.check(sound, Controls()).violation is None
    sequences.send_range(recipe_text(SequenceRecipe(SEED), Controls()), 0, 1)
    with pytest.raises(WorkerLost) as caught:
        sequences.receive()
    assert (caught.value.violation, caught.value.index, caught.value.stage) == ("crash-SIGABRT", 0, "sequence")
    assert sequences.check(sound, Controls()).violation is None
    sequences.kill_hung()
    assert sequences.check(sound, Controls()).steps == sound.steps


def test_a_question_unknown_to_the_judge_is_a_failure(sequences: SequenceWorker) -> None:
    with pytest.raises(WorkerError, match="no judge answers 'the weather'"):
        sequences.ask("the weather")
    assert sequences.without_effect(("a", "b")) == ["a"]


@pytest.mark.parametrize(("index", "message"), [(2, "SystemExit: 0"), (3, "IndexError: a mistake of ours")])
def test_a_mistake_of_ours_is_not_a_result(sequences: SequenceWorker, index: int, message: str) -> None:
    """It is not a lost worker either, even if it is an exit."""
    with pytest.raises(WorkerError) as failed:
        sequences.check(sequence_at(SequenceRecipe(SEED), index), Controls())
    assert str(failed.value).splitlines()[-1] == message
    assert sequences.alive

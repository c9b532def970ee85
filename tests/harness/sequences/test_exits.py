"""Production code that ends its process: in a step that is a finding, at the start a reason, while it loads a
refusal."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from harness.case.sequence import Add, Segment, SequenceCase, Step
from harness.kernels.targets.vllm.scheduling.sources import whole_tree
from harness.kernels.targets.vllm.sources import SCHEDULER
from harness.sequences.controls import Controls
from harness.sequences.recipe import SequenceRecipe, sequence_at
from harness.sequences.verdicts import evidence_of, signature_of
from harness.sequences.worker import SequenceWorker
from harness.worker.losses import WorkerRefused

IN_STEP, AT_START, KILLED = 3, 5, 7
"""Values of `requests`, the maximum number of running requests, with which the scheduler exits."""

PLANTED = {
    "schedule": f"if self.max_num_running_reqs == {IN_STEP}: import sys; sys.exit(5)",
    "__init__": f"import os, sys; of = vllm_config.scheduler_config.max_num_seqs\n"
    f"        if of == {AT_START}: sys.exit(6)\n"
    f"        if of == {KILLED}: os._exit(7)",
}


def checkout(release: str, folder: Path, edit: Callable[[str], str]) -> str:
    """A checkout of a release whose scheduler is edited, as a target."""
    shutil.copytree(whole_tree(release).directory / "vllm", folder / "vllm", copy_function=os.symlink)
    scheduler = folder / SCHEDULER
    text = scheduler.read_text()
    scheduler.unlink()
    scheduler.write_text(edit(text))
    return f"path:{folder}"


def with_exits(text: str) -> str:
    """The source of a scheduler, with code planted in front of its functions."""
    for name, code in PLANTED.items():
        text, count = re.subn(rf"(    def {name}\([^)]*\)[^:\n]*:\n)", rf"\1        {code}\n", text, count=1)
        assert count == 1, name
    return text


@pytest.fixture(scope="module")
def exiting(newest: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SequenceWorker]:
    target = checkout(newest, tmp_path_factory.mktemp("checkout"), with_exits)
    with SequenceWorker(target) as process:
        process.wait_ready()
        yield process


def a_case(requests: int) -> SequenceCase:
    """A sequence of one request, in an engine that runs at most `requests`."""
    config = msgspec.structs.replace(sequence_at(SequenceRecipe(0), 0).config, requests=requests)
    return SequenceCase(
        config=config, events=(Add(request=0, prompt=(Segment(family=0, length=3),), outputs=2), Step())
    )


def test_an_exit_in_a_step_is_a_finding_with_its_place(exiting: SequenceWorker) -> None:
    result = exiting.check(a_case(IN_STEP), Controls())
    assert result.violation is not None
    assert str(signature_of(result.violation)) == "sequence/meaning/exception-SystemExit/schedule/-"
    assert result.violation.summary == "step 0, the engine: SystemExit in schedule: 5"
    details = evidence_of(result.violation, result.trace).details
    assert any("sys.exit(5)" in line for line in details)
    assert any('File "vllm/v1/core/sched/scheduler.py", line ' in line for line in details)
    assert exiting.check(a_case(2), Controls()).violation is None


def test_an_exit_at_the_start_is_a_reason(exiting: SequenceWorker) -> None:
    result = exiting.check(a_case(AT_START), Controls())
    assert result.violation is None
    assert result.skipped == "the release refuses to start: SystemExit in __init__: if of == N: sys.exit(N)"


@pytest.mark.long
def test_losing_the_child_at_the_start_is_reported_by_sequences(exiting: SequenceWorker) -> None:
    result = exiting.check(a_case(KILLED), Controls())
    assert result.violation is not None
    assert result.violation.kind == "process-exit-7"


@pytest.mark.long
def test_an_exit_while_it_loads_is_a_refusal(newest: str, tmp_path: Path) -> None:
    target = checkout(newest, tmp_path, lambda text: "import sys\nsys.exit('not today')\n" + text)
    with SequenceWorker(target) as process, pytest.raises(WorkerRefused) as refused:
        process.wait_ready()
    assert str(refused.value) == "vllm.v1.core.sched.scheduler does not import here: SystemExit: not today"

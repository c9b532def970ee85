"""Features that only campaigns of sequences have: identities, kernel cases, and journals of earlier versions."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from harness.campaign.campaign import Campaign
from harness.campaign.journal import CannotResume, Journal
from harness.campaign.settings import Settings
from harness.case import Case, decode_case
from harness.case.sequence import Abort, Event, Finish, Step
from harness.files import NotSaved
from harness.generators.sequences.configurations import Pins
from harness.issues.registry import DEFAULT_FIXES
from harness.kernels.executors.base import DeviceFault
from harness.sequences import judge
from harness.sequences.controls import Controls
from harness.sequences.kernels import KernelChoice, Kernels, KernelSide
from harness.sequences.recipe import SequenceRecipe, sequence_at
from harness.sequences.subject import StepSequences
from harness.sequences.worker import SequenceWorker

RECIPE = SequenceRecipe(seed=5, steps=4)


@pytest.fixture
def small_files() -> Iterator[Callable[[int], None]]:
    """Call it with the most bytes that a file of this process may have from now on."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_kernel_case_is_written_whole_or_not_at_all(
    tmp_path: Path, small_files: Callable[[int], None], make_case: Callable[..., Case]
) -> None:
    keep = judge._Keeper(tmp_path, RECIPE, 7)
    keep(make_case())
    small_files(100)
    with pytest.raises(NotSaved) as failed:
        keep(make_case())
    small_files(resource.RLIM_INFINITY)
    assert failed.value.parts[0] == "a kernel case of a sequence"
    assert failed.value.error.filename == str(tmp_path / "sequence-5-7-001.json")
    assert [path.name for path in tmp_path.iterdir()] == ["sequence-5-7-000.json"]
    assert decode_case((tmp_path / "sequence-5-7-000.json").read_bytes()) == make_case()


@pytest.mark.parametrize(
    "events", [(), (Abort(request=5), Finish(request=9), Step())], ids=["none", "without a request"]
)
def test_events_that_leave_nothing_to_do_are_not_a_pass(scheduler: SequenceWorker, events: tuple[Event, ...]) -> None:
    case = msgspec.structs.replace(sequence_at(SequenceRecipe(0), 0), events=events)
    assert scheduler.check(case, Controls()).skipped == "the engine had nothing to do: no step was run"


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        (StepSequences(target="vllm==0.33.0", recipe=SequenceRecipe(6, steps=4)), "seed 5, not 6"),
        (StepSequences(target="vllm==0.32.0", recipe=RECIPE), "target vllm==0.33.0, not vllm==0.32.0"),
        (
            StepSequences(target="vllm==0.33.0", recipe=SequenceRecipe(5, Pins(runner="V1"), 4)),
            "pins runner none, not V1",
        ),
        (
            StepSequences(target="vllm==0.33.0", recipe=RECIPE, controls=Controls(fixes=("padded-fresh-row",))),
            "fixes none, not padded-fresh-row",
        ),
        (
            StepSequences(
                target="vllm==0.33.0", recipe=RECIPE, kernel_side=KernelSide(KernelChoice("builtin", "native"))
            ),
            "kernels executor none, not native",
        ),
    ],
    ids=["seed", "target", "pins", "fixes", "kernels"],
)
def test_no_other_campaign_is_resumed(tmp_path: Path, changed: StepSequences, difference: str) -> None:
    subject = StepSequences(target="vllm==0.33.0", recipe=RECIPE)
    path = tmp_path / subject.journal
    journal = Journal(path, subject.identity(), subject.noun)
    journal.open(resume=False)
    journal.close()
    before = path.read_bytes()
    Campaign(subject, Settings(out=tmp_path, cases=3, resume=True))
    with pytest.raises(CannotResume) as refused:
        Campaign(changed, Settings(out=tmp_path, cases=3, resume=True))
    assert str(refused.value).startswith(f"{path} is another campaign's: ")
    assert difference in str(refused.value)
    assert "\n" not in str(refused.value)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


OLD_JOURNAL = Path(__file__).with_name("data") / "sequences.journal"
"""An identity as it was written before campaigns had one journal: it includes names with empty values."""


def test_a_journal_of_before_is_read() -> None:
    """It was written for seed 5 of the stub: tests/harness/campaign resumes it."""
    younger = ("uncounted-draft-slots", "streamed-session", "reset-with-session")
    fixes = tuple(name for name in DEFAULT_FIXES if name not in younger)
    subject = StepSequences(target="vllm==0.33.0", recipe=SequenceRecipe(5), controls=Controls(fixes=fixes))
    entries = Journal(OLD_JOURNAL, subject.identity(), subject.noun, subject.current_identity).read()
    assert [entry.index for entry in entries] == list(range(14))
    assert sum(entry.steps for entry in entries) == 930
    assert (entries[2].seconds, entries[2].counters) == (0.12, {"steps": 120, "rows": 120, "odd": 1982009360})
    found = {entry.index: entry.signature for entry in entries if entry.signature is not None}
    assert found == dict.fromkeys((2, 4, 5, 9, 13), "sequence/meaning/token-mismatch/mamba/-")
    assert {entry.skipped for entry in entries} == {None}
    assert {entry.issue for entry in entries} <= {None, "uncounted-draft-slots"}, "the only issue that is not kept out"


class GoneDevice:
    """An executor whose device is gone."""

    def is_device_fault(self, error: BaseException) -> bool:
        return "CUDA error" in str(error)


def kernels_on_a_gone_device() -> Kernels:
    kernels: Kernels = object.__new__(Kernels)
    kernels.executor = GoneDevice()  # type: ignore[assignment]
    return kernels


@pytest.mark.parametrize("message", ["CUDA error: an illegal\nmemory access", "something else"])
def test_a_sequence_that_takes_the_device_down_ends_its_worker(monkeypatch: pytest.MonkeyPatch, message: str) -> None:
    """Wherever it is noticed: each later call would fail."""

    def fails(*_: object) -> None:
        raise RuntimeError(message)

    monkeypatch.setattr(judge, "_run", fails)
    gone = message.startswith("CUDA")
    with pytest.raises(DeviceFault if gone else RuntimeError, match=" ".join(message.split())):
        judge.run(sequence_at(RECIPE, 0), Controls(), kernels_on_a_gone_device())
    with pytest.raises(RuntimeError):
        judge.run(sequence_at(RECIPE, 0), Controls(), None)

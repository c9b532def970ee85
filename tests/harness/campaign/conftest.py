"""One suite for campaigns of all subjects: a kit provides what it needs of each of them.

Kernel cases run on targets that break, step sequences on a stub of a release, and the third subject exists only for
tests. All of them run in real worker processes.
"""

from __future__ import annotations

import abc
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from harness.campaign.campaign import Campaign
from harness.campaign.events import CampaignFinished, CaseJudged, Event, Notice
from harness.campaign.settings import Settings
from harness.case import Precopy
from harness.engines.random import Recipe
from harness.issues.registry import DEFAULT_FIXES
from harness.kernel_cases.subject import KernelCases
from harness.repro import AnyRepro, read_any
from harness.repro.format import REPRO_TYPES
from harness.sequences.controls import Controls
from harness.sequences.recipe import SequenceRecipe
from harness.sequences.subject import StepSequences
from harness.subject import registry
from harness.subject.registry import AnySubject
from harness.worker.process import WorkerProcess

HERE = Path(__file__).parent
STAND_IN = HERE.parent / "sequences" / "stand_in_release.py"
COUNT = 40
"""Cases of a campaign: more than two blocks of any subject."""


class Kit(abc.ABC):
    """A subject, set up so that the results of its cases are known."""

    name: ClassVar[str]
    signature_of_loss: ClassVar[str]
    """The signature of a worker that was lost in the way `{}`."""
    harms: ClassVar[dict[str, str]]
    """By a harm's name in the suite, its name in the subject. What they do: `crash`, `exit` (with status 3) and `hang`
    are findings; `kill` and `kill-once` send SIGKILL, the latter only the first time; `break` is a mistake of the
    harness, `fault` the end of a device; `warn` warns."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, executor: str) -> None:
        self._patch, self._executor = monkeypatch, executor

    @abc.abstractmethod
    def right(self) -> AnySubject:
        """A subject in which nothing is wrong."""

    @abc.abstractmethod
    def wrong(self, seed: int | None = None) -> AnySubject:
        """A subject with some wrong cases; without a seed, several of COUNT with one signature."""

    @abc.abstractmethod
    def harmed(self, how: str, limit: float = 60.0) -> tuple[AnySubject, list[int]]:
        """A subject in which nothing is wrong but two of COUNT cases do harm, and their numbers, neither first nor
        last."""

    @abc.abstractmethod
    def mend(self) -> None:
        """From here on, new workers do no harm."""


class CaseKit(Kit):
    name = "case"
    signature_of_loss = "precopy/isolation/{}/process/-"
    harms: ClassVar[dict[str, str]] = {
        **{name: name for name in ("exit", "hang", "fault", "warn")},
        **{"crash": "segfault", "kill": "killed", "kill-once": "killed-once", "break": "incomplete"},
    }

    def _subject(self, target: str, seed: int, operations: Sequence[str], limit: float = 60.0) -> KernelCases:
        recipe = Recipe(seed=seed, domains=("reachable",), operations=tuple(operations), scale="small")  # type: ignore[arg-type]
        return KernelCases(target=target, executor=self._executor, limit=limit, recipe=recipe)

    def right(self) -> AnySubject:
        return self._subject("builtin", 0, ("postprocess", "precopy"))

    def wrong(self, seed: int | None = None) -> AnySubject:
        return self._subject("builtin+wrong-group", seed or 0, ("postprocess", "precopy"))

    def harmed(self, how: str, limit: float = 60.0) -> tuple[AnySubject, list[int]]:
        is_trigger = importlib.import_module("broken_targets").is_trigger

        def harms(subject: KernelCases, index: int) -> bool:
            precopies = [one for one in subject.draw(index).program if isinstance(one, Precopy)]
            return any(is_trigger(precopy.runner, len(precopy.rows)) for precopy in precopies)

        return first_with_two(lambda seed: self._subject(f"broken:{self.harms[how]}", seed, ("precopy",), limit), harms)

    def mend(self) -> None:
        self._patch.setenv("BROKEN_TARGETS_MENDED", "1")


class SequenceKit(Kit):
    name = "sequence"
    signature_of_loss = "sequence/meaning/process-{}/process/-"
    harms: ClassVar[dict[str, str]] = {
        name: name for name in ("crash", "exit", "hang", "kill", "kill-once", "break", "fault", "warn")
    }

    def _subject(self, how: str, seed: int = 5, limit: float = 60.0) -> StepSequences:
        self._patch.setattr(WorkerProcess, "SERVES", (str(STAND_IN), "serve"))
        self._patch.setenv("STAND_IN", how)
        controls = Controls(fixes=DEFAULT_FIXES)
        return StepSequences(target="vllm==0.33.0", recipe=SequenceRecipe(seed), controls=controls, limit=limit)

    def right(self) -> AnySubject:
        return self._subject("right")

    def wrong(self, seed: int | None = None) -> AnySubject:
        return self._subject("", 5 if seed is None else seed)

    def harmed(self, how: str, limit: float = 60.0) -> tuple[AnySubject, list[int]]:
        return self._subject(f"right,{self.harms[how]}:11,{self.harms[how]}:26", limit=limit), [11, 26]

    def mend(self) -> None:
        self._patch.setenv("STAND_IN", "right")


class NumberKit(Kit):
    name = "number"
    signature_of_loss = "process-{}"
    harms = CaseKit.harms

    def _subject(self, target: str, seed: int, limit: float = 60.0) -> AnySubject:
        return importlib.import_module("numbers_subject").Numbers(target, seed, limit)

    def right(self) -> AnySubject:
        return self._subject("vllm==0.33.0", 0)

    def wrong(self, seed: int | None = None) -> AnySubject:
        return self._subject("builtin", seed or 0)

    def harmed(self, how: str, limit: float = 60.0) -> tuple[AnySubject, list[int]]:
        self._patch.setenv("NUMBERS", f"{self.harms[how]}:97")
        return first_with_two(
            lambda seed: self._subject("vllm==0.33.0", seed, limit), lambda subject, index: 97 in subject.draw(index)
        )

    def mend(self) -> None:
        self._patch.delenv("NUMBERS")


def first_with_two(subject_of: Callable[[int], Any], harms: Callable[[Any, int], bool]) -> tuple[AnySubject, list[int]]:
    """The first seed of which exactly two cases do harm: not the first, not the last, and not neighbours."""
    for seed in range(1000):
        subject = subject_of(seed)
        found = [index for index in range(COUNT) if harms(subject, index)]
        if len(found) == 2 and found[0] > 0 and found[0] + 1 < found[1] < COUNT - 1:
            return subject, found
    raise AssertionError("no seed has two")


@pytest.fixture(autouse=True)
def third_subject(monkeypatch: pytest.MonkeyPatch, broken_targets: Path) -> Iterator[None]:
    """Make the registry know numbers, and workers able to import them."""
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.syspath_prepend(str(broken_targets))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), os.environ["PYTHONPATH"]]))
    monkeypatch.setattr(registry, "_SUBJECTS", dict(registry._SUBJECTS))
    before = dict(REPRO_TYPES)
    numbers = importlib.import_module("numbers_subject")
    registry.register("number", "numbers_subject:Numbers", numbers.NumbersRepro)
    yield
    REPRO_TYPES.clear()
    REPRO_TYPES.update(before)
    for name in ("numbers_subject", "broken_targets"):
        sys.modules.pop(name, None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark kernel cases as slow, unless a mark says otherwise: each of their workers imports torch and triton, which
    takes seconds. The other subjects cover what belongs only to campaigns."""
    for item in items:
        chosen = (
            item.callspec.params.values() if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ()
        )
        if item.path.parent == HERE and any(getattr(one, "name", None) == CaseKit.name for one in chosen):
            item.add_marker(pytest.mark.long)
            if "kernel_cases_too" not in item.keywords:
                item.add_marker(pytest.mark.slow)


@pytest.fixture(params=[CaseKit, SequenceKit, NumberKit], ids=lambda kit: kit.name)
def kit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, executor_name: str, tmp_path: Path) -> Kit:
    """The kit of each subject."""
    for mark in ("BROKEN_TARGETS_MARK", "STAND_IN_MARK"):
        monkeypatch.setenv(mark, str(tmp_path / "mark"))
    found: Kit = request.param(monkeypatch, executor_name)
    return found


@pytest.fixture
def numbers(monkeypatch: pytest.MonkeyPatch, executor_name: str) -> NumberKit:
    """The kit of the subject that costs least, for what is the same for all."""
    return NumberKit(monkeypatch, executor_name)


class Ran:
    """A campaign that has ended. `handle` is called with each event as it happens."""

    def __init__(
        self, subject: AnySubject, settings: Settings, handle: Callable[[Event], None] = lambda event: None
    ) -> None:
        self.out = settings.out
        self.events: list[Event] = []
        for event in Campaign(subject, settings).run():
            self.events.append(event)
            handle(event)
        last = self.events[-1]
        assert isinstance(last, CampaignFinished)
        self.summary: Any = last.summary

    @property
    def judged(self) -> list[int]:
        """Numbers of cases, in order."""
        return sorted(event.index for event in self.events if isinstance(event, CaseJudged))

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Notice)]

    @property
    def found(self) -> list[tuple[str, int, int, AnyRepro]]:
        """For each finding its signature, the case that represents it, the number of cases, and its file."""
        rows = []
        for finding in self.summary.compared():
            _, repro = read_any(Path(finding.repro))
            rows.append((finding.signature, repro.origin.index, finding.cases, repro))
        return rows


@pytest.fixture(scope="session")
def undisturbed() -> dict[str, Ran]:
    """Campaigns by subject."""
    return {}


@pytest.fixture
def whole(kit: Kit, undisturbed: dict[str, Ran], tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A campaign of COUNT cases, some of them wrong, by one undisturbed worker; nothing was shrunk."""
    if kit.name not in undisturbed:
        settings = Settings(out=tmp_path_factory.mktemp(kit.name), cases=COUNT, shrink=False)
        undisturbed[kit.name] = Ran(kit.wrong(), settings)
    return undisturbed[kit.name]


@pytest.fixture
def run() -> type[Ran]:
    """Call it with a subject and settings."""
    return Ran


@pytest.fixture
def settings(tmp_path: Path) -> Callable[..., Settings]:
    """Settings of COUNT cases whose findings go to `out` in the test's folder, as they were drawn."""

    def make(**changes: Any) -> Settings:
        return Settings(**{"out": tmp_path / "out", "cases": COUNT, "shrink": False, **changes})

    return make

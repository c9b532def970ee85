"""A subject of another package works like ours: campaigns, files and commands only need its registration."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from harness.campaign.events import CampaignStarted, CaseJudged, Event, FindingKept
from harness.campaign.settings import Settings
from harness.case import InvalidCase
from harness.refusal import Refusal
from harness.reports.compared import print_comparison
from harness.repro import read_any, read_repro
from harness.subject.registry import read_file

if TYPE_CHECKING:
    from tests.harness.campaign.conftest import Ran

Command = Callable[..., tuple[int, str, str]]
Run = Callable[..., "Ran"]
Make = Callable[..., Settings]


@pytest.fixture
def out(run: Run, settings: Make) -> Path:
    """The folder of a campaign in which two kinds of numbers were found."""
    numbers: Any = importlib.import_module("numbers_subject")
    ran = run(numbers.Numbers("vllm==0.31.0"), settings(shrink=True))
    assert [one[0] for one in ran.found] == ["unlucky", "unlucky-too"]
    assert [one[3].numbers for one in ran.found] == [[13], [14]]
    kept = [event for event in ran.events if isinstance(event, FindingKept)]
    assert [event.repro.shrink.complete for event in kept if event.repro.shrink is not None] == [True, True]
    return ran.out


def test_its_files_are_its_own(out: Path) -> None:
    files = sorted(out.glob("*.json"))
    assert [read_any(path)[0] for path in files] == ["number", "number"]
    subject, repro = read_file(files[0])
    assert (subject.__name__, repro.signature.violation) == ("Numbers", "unlucky")
    with pytest.raises(InvalidCase, match="not a kernel case"):
        read_repro(files[0])


@pytest.mark.long
def test_its_files_are_shown_replayed_and_shrunk(out: Path, command: Command) -> None:
    (drawn,) = (path for path in (out / "as-drawn").iterdir() if "unlucky-too" not in path.name)
    status, output, _ = command("show", drawn)
    assert status == 0
    assert "unlucky" in output
    for target, expected in (("vllm==0.31.0", (1, "FAILED")), ("vllm==0.32.0", (0, "FIXED"))):
        status, output, _ = command("replay", drawn, "-t", target)
        assert (status, expected[1] in output) == (expected[0], True)
        status, output, _ = command("replay", drawn, "-t", target, "--json")
        result = json.loads(output)
        assert (status, result["answer"], result["same"]) == (*expected, expected[1] == "FAILED")
    status, output, _ = command("shrink", drawn)
    assert status == 1
    smaller = drawn.with_suffix(".min.json")
    assert output.startswith(f"{smaller}: unlucky, ")
    assert json.loads(smaller.read_bytes())["numbers"] == [13]
    status, output, _ = command("shrink", drawn, "-t", "vllm==0.32.0")
    assert status == 0


def test_the_replay_of_a_folder_ends_with_totals(out: Path, command: Command) -> None:
    status, output, _ = command("replay", out, "-t", "vllm==0.32.0")
    assert (status, output.splitlines()[-1]) == (0, "2 repro files: 0 FAILED, 2 FIXED, 0 SKIPPED")


def test_of_a_folder_with_a_bad_file_nothing_is_replayed(out: Path, command: Command) -> None:
    (out / "zzz.json").write_text("{")
    status, output, errors = command("replay", out, "-t", "vllm==0.32.0")
    assert (status, output, len(errors.splitlines())) == (2, "", 1)
    assert "zzz.json" in errors


def test_its_files_are_swept(out: Path, command: Command) -> None:
    status, output, _ = command("sweep", out, "-t", "vllm==0.29.0,vllm==0.30.0,vllm==0.31.0,vllm==0.33.0", "--json")
    assert status == 1
    result = json.loads(output)["findings"]
    words = ["NOT APPLICABLE", "FAILED", "FAILED", "FIXED"]
    assert [[answer["answer"] for answer in row["answers"]] for row in result] == [words, words]
    affected = "Affects vllm 0.30.0 to 0.31.0, not 0.33.0 (not all in between were asked)"
    affected += "; not applicable to vllm 0.29.0."
    assert {row["affected"] for row in result} == {affected}


@pytest.mark.long
def test_shrinking_a_hang_ends_in_time(out: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise each candidate would take the whole time limit."""
    file = next(out.glob("*.json"))
    long = {**json.loads(file.read_bytes()), "numbers": [*range(20), 97]}
    file.write_text(json.dumps(long))
    monkeypatch.setenv("NUMBERS", "hang:97")
    status, output, _ = command("shrink", file, "--case-limit", "0.2s", "--json")
    assert status == 1
    shrunk = json.loads(output)["shrink"]
    assert (shrunk["executions"], shrunk["complete"]) == (6, False)


def test_several_targets_are_compared(run: Run, settings: Make) -> None:
    several: Any = importlib.import_module("harness.campaign.several")
    numbers: Any = importlib.import_module("numbers_subject")
    targets = ["vllm==0.31.0", "vllm==0.33.0"]
    comparison = several.run_several(numbers.Numbers, settings(), targets, lambda event: None)
    assert comparison.names == targets
    assert [(summary.target, summary.count) for summary in comparison.targets] == [(target, 40) for target in targets]
    assert [list(finding.cases) for finding in comparison.findings] == [targets[:1]] * 2
    assert comparison.exit_status == 1


def test_targets_are_compared_by_the_names_that_were_asked_for(
    settings: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two of them may run the same scheduler, and both name it as their target."""
    several: Any = importlib.import_module("harness.campaign.several")
    numbers: Any = importlib.import_module("numbers_subject")
    names = ["builtin", "vllm==0.31.0"]
    comparison = several.run_several(
        lambda name: numbers.Numbers("vllm==0.31.0", seed=names.index(name)), settings(), names, lambda event: None
    )
    assert [summary.target for summary in comparison.targets] == ["vllm==0.31.0"] * 2
    shared = comparison.findings[0]
    assert list(shared.cases) == list(shared.repros) == names
    assert {Path(shared.repros[name]).parts[-3] for name in names} == {"builtin", "vllm-0.31.0"}
    print_comparison(comparison)
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[2:4]] == names


def test_targets_that_would_share_a_folder_are_refused(settings: Make) -> None:
    several: Any = importlib.import_module("harness.campaign.several")
    numbers: Any = importlib.import_module("numbers_subject")
    given = settings()
    with pytest.raises(
        Refusal, match=r"^'path:a/b' and 'path:a-b' would both write to '\S+/path-a-b': run them one by"
    ):
        several.run_several(numbers.Numbers, given, ["path:a/b", "builtin", "path:a-b"], lambda event: None)
    assert not given.out.exists()


@pytest.mark.parametrize(
    ("number", "at", "message"),
    [
        (0, -1, ""),
        (0, 4, "on vllm==0.33.0 no finding, after 5 numbers; resume with the same command and --resume"),
        (1, -1, "vllm==0.33.0 done, on builtin nothing was judged; resume with the same command and --resume"),
        (1, 0, "vllm==0.33.0 done, on builtin no finding, after 1 number; resume with the same command and --resume"),
    ],
)
def test_an_interrupt_says_what_is_left_of_several_targets(settings: Make, number: int, at: int, message: str) -> None:
    """`number` is the target that is interrupted, `at` the case that it judges; -1: while it loads."""
    several: Any = importlib.import_module("harness.campaign.several")
    numbers: Any = importlib.import_module("numbers_subject")
    targets = ["vllm==0.33.0", "builtin"]

    def subject_of(target: str) -> Any:
        if at < 0 and target == targets[number]:
            raise KeyboardInterrupt
        return numbers.Numbers(target)

    def interrupt(event: Event) -> None:
        if isinstance(event, CampaignStarted):
            started.append(event)
        if isinstance(event, CaseJudged) and (len(started) - 1, event.index) == (number, at):
            raise KeyboardInterrupt

    started: list[Event] = []
    with pytest.raises(several.TargetsInterrupted) as left:
        several.run_several(subject_of, settings(), targets, interrupt)
    assert str(left.value) == message
    comparison = left.value.comparison
    judged = targets[: number + (at >= 0)]
    assert (comparison is None) == (judged == [])
    if comparison is not None:
        assert (comparison.names, comparison.exit_status, comparison.ended_early) == (judged, 130, "interrupted")
        assert comparison.targets[-1].exit_status == (130 if at >= 0 else 0)


def test_a_budget_starts_again_when_a_campaign_is_resumed() -> None:
    again = "for another 300 s, or with a new --budget, or --cases N in its place"
    timed = Settings(out=Path("out"), seconds=300.0)
    assert timed.how_to_resume == f"resume with the same command and --resume: {again}"
    assert msgspec.structs.replace(timed, resume=True).how_to_resume == f"resume with the same command: {again}"

"""`harness report`: the reports of a campaign folder are those that its run would have written."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from harness.campaign.folder import CampaignFolder, NoEnding
from harness.reports.written.html import html
from harness.reports.written.kept import results_in
from harness.reports.written.result import Result, result_of
from harness.subject.summary import ending_of
from tests.reports.pages import findings_of
from tests.summaries import case_summary, sequence_finding, sequence_summary

FINDING = msgspec.to_builtins(findings_of([None], "that")[0])

Command = Callable[..., "subprocess.CompletedProcess[str]"]


def keep(folder: Path, *, repro: str | None = None) -> Result:
    """A folder in which a campaign ended; its result."""
    summary = case_summary(findings=findings_of([repro or str(folder / "as-drawn" / "one.json"), None], "that"))
    CampaignFolder(folder).write_ending("case", ending_of(summary), "2026-01-01T00:00:02+00:00")
    return result_of(summary)


def test_the_result_of_a_folder_is_that_of_its_run(tmp_path: Path) -> None:
    expected = keep(tmp_path / "out")
    (found,) = results_in(tmp_path / "out")
    assert (found.title, found.answer) == (expected.title, expected.answer)
    assert msgspec.json.encode(found.json) == msgspec.json.encode(expected.json)
    assert html([found]) == html([expected])


def test_files_are_found_where_the_folder_is_now(tmp_path: Path) -> None:
    keep(tmp_path / "out")
    shutil.move(tmp_path / "out", tmp_path / "elsewhere")
    (found,) = results_in(tmp_path / "elsewhere")
    assert [one["repro"] for one in found.json["findings"]] == [str(tmp_path / "elsewhere/as-drawn/one.json"), None]


@pytest.mark.parametrize("file", ["/not/in/it.json", "{}/../not/in/it.json", "not/in/it.json"])
def test_no_other_file_is_opened_because_an_ending_names_it(tmp_path: Path, file: str) -> None:
    """Pages draw what files of findings hold."""
    keep(tmp_path / "out", repro=file.format(tmp_path / "out"))
    with pytest.raises(NoEnding, match="is damaged: the file of a finding is not in its folder"):
        results_in(tmp_path / "out")


def test_several_subjects_come_in_the_order_in_which_they_ended(tmp_path: Path) -> None:
    keep(tmp_path)
    ending = ending_of(sequence_summary([sequence_finding(repro=str(tmp_path / "f.json"))]))
    CampaignFolder(tmp_path).write_ending("sequence", ending, "2026-01-01T00:00:01+00:00")
    assert ["sequences" in one.title for one in results_in(tmp_path)] == [True, False]


def test_folders_of_targets_count_and_those_of_earlier_campaigns_do_not(tmp_path: Path) -> None:
    for name in ("one", "other", "earlier.1"):
        keep(tmp_path / name)
    assert len(results_in(tmp_path)) == 2
    with pytest.raises(NoEnding, match="--budget 0 ends one that was stopped"):
        results_in(tmp_path / "one" / "campaign")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "is damaged: harness run --resume"),
        ('{"harness_ending": 2}', "is of another version of the harness: it has the number 2"),
    ],
)
def test_a_damaged_ending_is_refused_in_a_line(tmp_path: Path, text: str, why: str) -> None:
    keep(tmp_path)
    (tmp_path / "campaign" / "case.ending.json").write_text(text)
    with pytest.raises(NoEnding, match=why) as refused:
        results_in(tmp_path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("findings", 7, "Expected `array`"),
        ("faults", [{"title": "t", "shared": [], "findings": [2]}], "it groups findings that it does not have"),
        ("faults", [{"title": "t", "shared": [], "findings": []}], "a fault has no finding"),
        ("findings", [{**FINDING, "signature": "x"}], "a finding has no name"),
        *(
            (name, -1, "Expected `object")
            for name in ("regimes", "unjudged", "judged", "skipped", "lacking", "relations")
        ),
        *((name, -1, "Expected `object") for name in ("base", "edited", "standing")),
        *((name, -1, "Expected `array`") for name in ("kernel_lines", "lost", "missing")),
        ("judged", None, "Expected `object`, got `null`"),
    ],
)
def test_an_ending_that_no_campaign_writes_is_refused(tmp_path: Path, field: str, value: object, why: str) -> None:
    keep(tmp_path)
    file = tmp_path / "campaign" / "case.ending.json"
    held = json.loads(file.read_text())
    held["ending"]["summary"][field] = value
    file.write_text(json.dumps(held))
    with pytest.raises(NoEnding, match=why):
        results_in(tmp_path)


def test_the_command_writes_every_report(harness: Command, tmp_path: Path) -> None:
    keep(tmp_path / "out")
    names = ["html", "junit", "sarif", "markdown"]
    more = [word for name in names for word in (f"--{name}", str(tmp_path / name))]
    done = harness("report", tmp_path / "out", *more)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [(tmp_path / name).read_text()[:6] for name in names] == ["<!doct", "<tests", '{\n "$s', "## har"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "no report is asked for"),
        (["--html", "same", "--report", "junit=same"], "something else is written there"),
        (["--html", "out/campaign/case.ending.json"], "that file is the campaign's own"),
        (["--html", "page.html", "--report", "unknown=x"], "unknown report 'unknown'"),
    ],
)
def test_the_command_refuses_in_a_line(harness: Command, tmp_path: Path, more: list[str], message: str) -> None:
    keep(tmp_path / "out")
    more = [str(tmp_path / word) if "/" in word or word.startswith(("same", "page")) else word for word in more]
    more = [word.replace("junit=same", f"junit={tmp_path / 'same'}") for word in more]
    done = harness("report", tmp_path / "out", *more)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_folder_without_a_campaign_is_refused(harness: Command, tmp_path: Path) -> None:
    done = harness("report", tmp_path / "none", "--html", tmp_path / "page.html")
    assert done.returncode == 2
    assert "is no folder" in done.stderr
    assert not (tmp_path / "page.html").exists()


@pytest.mark.long
def test_a_run_and_its_folder_give_one_page(harness: Command, tmp_path: Path) -> None:
    options = ["--ops", "precopy", "--cases", "48", "--scale", "small", "--relations", "none", "--no-shrink"]
    page = ("--report", f"html={tmp_path / 'a'}")
    ran = harness("run", "-t", "builtin+wrong-destination", *options, "--out", tmp_path / "out", *page)
    assert ran.returncode == 1, ran.stderr
    assert harness("report", tmp_path / "out", "--html", tmp_path / "b").returncode == 0
    assert (tmp_path / "a").read_text() == (tmp_path / "b").read_text()
    assert "<svg" in (tmp_path / "a").read_text()
    # A campaign that goes on has not ended; when it has, it is reported again.
    again = harness("run", "--resume", tmp_path / "out", "--cases", "64")
    assert again.returncode == 1, again.stderr
    (found,) = results_in(tmp_path / "out")
    assert found.json["cases"] == 64
    # What its files show is drawn for one of them, and not for a whole folder.
    (repro, *_) = [one["repro"] for one in found.json["findings"]]
    replayed = harness("replay", repro)
    assert (replayed.returncode, replayed.stdout.count("\nPicture\n")) == (1, 1), replayed.stderr
    assert "what had to move: " in replayed.stdout
    (tmp_path / "two").mkdir()
    for name in ("a.json", "b.json"):
        shutil.copy(repro, tmp_path / "two" / name)
    assert "Picture" not in harness("replay", tmp_path / "two").stdout

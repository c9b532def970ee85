"""Shards: the parts of a campaign are apart, together are the whole, and put together end as it does."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from junitparser import JUnitXml

from harness.campaign.campaign import Campaign, NotDivisible
from harness.campaign.folder import CampaignFolder, InUse, NoConfiguration
from harness.campaign.journal import CannotResume
from harness.campaign.merging import CannotMerge, Merged, merge
from harness.campaign.settings import Settings, useful_workers
from harness.campaign.shard import Shard, parse_shard

if TYPE_CHECKING:
    from tests.harness.campaign.conftest import Kit, Ran

Run = Callable[..., "Ran"]
Make = Callable[..., Settings]
Command = Callable[..., tuple[int, str, str]]
COUNT = 40


@pytest.mark.parametrize("text", ["", "1", "0/3", "4/3", "1/0", "-1/3", "1/3/3", "a/b", "1/99999", "1.0/3"])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no shard: write 1/3"):
        parse_shard(text)


@pytest.mark.parametrize("of", [1, 2, 3, 7])
def test_each_block_is_in_one_shard(of: int) -> None:
    shards = [parse_shard(f"{number}/{of}") for number in range(1, of + 1)]
    for block in range(20):
        assert sum(shard.has(block) for shard in shards) == 1
    for shard in shards:
        assert shard.count(20) == sum(map(shard.has, range(20)))


def test_no_worker_is_started_for_the_blocks_of_others(tmp_path: Path) -> None:
    given = Settings(out=tmp_path, cases=160, workers=8, shard=Shard(2, 3))
    assert useful_workers(given, 16) == 3


def shards(kit: Kit, run: Run, settings: Make, of: int, out: Path, **changes: Any) -> list[Ran]:
    ran = []
    for number in range(1, of + 1):
        options = {"seed": str(kit.wrong().seed), "cases": str(COUNT), "shard": f"{number}/{of}", "no_shrink": True}
        more = {"out": out / str(number), "shard": Shard(number, of), "options": options, "workers": number}
        ran.append(run(kit.wrong(), settings(**{**more, **changes})))
    return ran


def test_they_are_put_together(kit: Kit, run: Run, settings: Make, whole: Ran, tmp_path: Path) -> None:
    parts = shards(kit, run, settings, 2, tmp_path)
    assert sorted(index for part in parts for index in part.judged) == list(range(COUNT))
    block = kit.wrong().block
    for number, part in enumerate(parts):
        assert {index // block % 2 for index in part.judged} == {number}
    merged = merge([part.out for part in parts], tmp_path / "all")
    assert merged == Merged({"seed": str(kit.wrong().seed), "cases": str(COUNT)}, [], [])
    assert dict(CampaignFolder(tmp_path / "all").read().options) == merged.options
    together = run(kit.wrong(), settings(out=tmp_path / "all", resume=True))
    assert (together.judged, together.found) == ([], whole.found)
    assert together.summary.count == COUNT


@pytest.fixture
def parts(run: Run, settings: Make, tmp_path: Path) -> list[Path]:
    """The folders of three shards of numbers."""
    numbers: Any = importlib.import_module("numbers_subject")
    outs = []
    for number in (1, 2, 3):
        options = {"seed": "0", "budget": f"{number}m", "shard": f"{number}/3"}
        given = settings(out=tmp_path / f"part {number}", shard=Shard(number, 3), options=options)
        outs.append(run(numbers.Numbers("builtin"), given).out)
    return outs


def test_a_shard_is_not_resumed_as_another(parts: list[Path], settings: Make) -> None:
    numbers: Any = importlib.import_module("numbers_subject")
    for shard, difference in ((Shard(2, 3), "shard 1/3, not 2/3"), (None, "shard 1/3, not none")):
        with pytest.raises(CannotResume, match=difference):
            Campaign(numbers.Numbers("builtin"), settings(out=parts[0], shard=shard, resume=True))


def test_cases_that_depend_on_each_other_have_no_shards(settings: Make) -> None:
    numbers: Any = importlib.import_module("numbers_subject")
    subject = numbers.Numbers("builtin")
    subject.resumable = False
    with pytest.raises(NotDivisible):
        Campaign(subject, settings(shard=Shard(1, 2)))


def test_what_shards_could_not_judge_is_kept(parts: list[Path], tmp_path: Path) -> None:
    (parts[1] / "harness-failures").mkdir()
    (parts[1] / "harness-failures" / "seed-0-number-7.txt").write_text("a traceback")
    merged = merge(parts, tmp_path / "all")
    assert merged.notices == [
        f"the harness failed in 1 case of shards: see 'harness-failures' in '{tmp_path / 'all'}'",
    ]
    assert (tmp_path / "all" / "harness-failures" / "seed-0-number-7.txt").read_text() == "a traceback"


def test_damaged_lines_are_reported_and_others_count(parts: list[Path], tmp_path: Path) -> None:
    journal = parts[0] / "numbers.journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:3], b"nothing\n", *lines[4:]]))
    assert merge(parts, tmp_path / "all").notices == [
        f"1 line of {journal} cannot be read: what they say is missing",
    ]
    merged = (tmp_path / "all" / "numbers.journal").read_bytes().splitlines()
    assert (len(merged), merged[-1]) == (1 + COUNT, b"nothing"), "the damaged line is kept"


def test_what_damaged_lines_said_is_missing(parts: list[Path], run: Run, settings: Make, tmp_path: Path) -> None:
    """Nothing judges those cases again where a merged campaign is only sorted out: it is not complete."""
    numbers: Any = importlib.import_module("numbers_subject")
    journal = parts[0] / "numbers.journal"
    journal.write_bytes(journal.read_bytes() + b"nothing\n")
    merge(parts, tmp_path / "all")
    ran = run(numbers.Numbers("builtin"), settings(out=tmp_path / "all", resume=True, cases=None, seconds=0.0))
    assert ran.summary.missing == ["what 1 line of the journal said, which cannot be read"]


def test_a_campaign_that_is_there_is_moved_aside(parts: list[Path], tmp_path: Path, run: Run, settings: Make) -> None:
    numbers: Any = importlib.import_module("numbers_subject")
    out = run(numbers.Numbers("builtin"), settings(options={"seed": "0"})).out
    assert merge(parts, out).aside == [out / "earlier.1"]
    assert CampaignFolder(out / "earlier.1").read().options == {"seed": "0"}
    assert (out / "earlier.1" / "numbers.journal").is_file()


def test_a_shard_that_is_running_is_not_merged(parts: list[Path], tmp_path: Path) -> None:
    with CampaignFolder(parts[2]).locked(), pytest.raises(InUse, match=r"another campaign is writing in '.*part 3'"):
        merge(parts, tmp_path / "all")
    assert not (tmp_path / "all").exists()


def test_what_is_not_the_shards_of_one_campaign_is_refused(parts: list[Path], tmp_path: Path) -> None:
    def refused(*folders: Path, out: Path = tmp_path / "all") -> str:
        with pytest.raises((CannotMerge, NoConfiguration)) as error:
            merge(folders, out)
        assert not (tmp_path / "all").exists()
        assert len(str(error.value).splitlines()) == 1
        return str(error.value)

    def changed(**options: str | None) -> None:
        file = CampaignFolder(parts[0])
        kept = {**file.read().options, **options}
        file.write({name: value for name, value in kept.items() if value is not None})

    assert refused(parts[0], parts[2]) == "of 3 shards 2/3 is missing"
    assert refused(parts[0]) == "of 3 shards 2/3, 3/3 are missing"
    assert refused(parts[0], parts[1], parts[1]) == f"'{parts[1]}' and '{parts[1]}' are both shard 2/3"
    assert "there is no" in refused(tmp_path / "nowhere")
    assert "is one of the shards" in refused(*parts, out=parts[1])
    changed(seed="1")
    assert refused(*parts).endswith("are not of one campaign: they differ in --seed")
    changed(seed="0", shard="1/4")
    assert refused(*parts) == "these are shards of different divisions: 1/4, 2/3, 3/3"
    changed(shard=None)
    assert refused(*parts) == f"'{parts[0]}' is no shard, but a whole campaign"
    changed(shard="1/3")
    journal = parts[0] / "numbers.journal"
    text = journal.read_bytes()
    journal.write_bytes(text.replace(b'"builtin"', b'"another"', 1))
    assert "are not of one campaign" in refused(*parts)
    journal.write_bytes(text.replace(b'"1/3"', b'"3/3"', 1))
    assert refused(*parts) == f"{journal} is not the journal of shard 1/3, as its configuration has it"
    journal.write_bytes(text[20:])
    assert "the first line of" in refused(*parts)
    journal.unlink()
    assert refused(*parts) == f"'{parts[0]}' has no journal, so nothing of this shard was judged: resume it first"
    os.mkfifo(journal)
    assert refused(*parts) == f"{journal}: not a regular file"
    journal.unlink()
    journal.write_bytes(text)
    (parts[0] / "campaign" / "number.remembered").unlink()
    os.mkfifo(parts[0] / "campaign" / "number.remembered")
    assert refused(*parts).endswith("number.remembered: not a regular file")


@pytest.mark.parametrize("option", ["baseline", "corpus"])
def test_a_folder_that_is_only_read_is_left_alone(parts: list[Path], tmp_path: Path, option: str) -> None:
    for part in parts:
        folder = CampaignFolder(part)
        folder.write({**folder.read().options, option: str(tmp_path / "kept")})
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "numbers.journal").write_bytes(b"of an earlier night")
    with pytest.raises(CannotMerge, match=f"is the --{option} of this campaign"):
        merge(parts, tmp_path / "kept")
    assert [one.name for one in (tmp_path / "kept").iterdir()] == ["numbers.journal"]


def test_what_an_earlier_campaign_left_in_a_shard_is_not_merged(parts: list[Path], tmp_path: Path) -> None:
    (parts[0] / "earlier.1").mkdir()
    (parts[0] / "earlier.1" / "numbers.journal").write_bytes(b"of another campaign")
    merge(parts, tmp_path / "all")
    assert not (tmp_path / "all" / "earlier.1").exists()


def test_a_shard_without_cases_is_merged(run: Run, settings: Make, tmp_path: Path) -> None:
    """There are more shards than blocks of cases."""
    numbers: Any = importlib.import_module("numbers_subject")
    outs = []
    for number in (1, 2, 3):
        options = {"seed": "0", "cases": "1", "shard": f"{number}/3"}
        given = settings(out=tmp_path / str(number), cases=1, shard=Shard(number, 3), options=options)
        outs.append(run(numbers.Numbers("builtin"), given).out)
    assert merge(outs, tmp_path / "all").notices == []


# The command line.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shard", "4/3"], "'4/3' is no shard"),
        (["--shard", "1/2", "--targets", "builtin"], "--shard with --targets needs --cases"),
        (["--budget", "0"], "--budget 0 judges nothing"),
        (["somewhere"], "unexpected 'somewhere'"),
        (["--resume", "nowhere"], "there is no nowhere/campaign/configuration.json"),
        (["-t", "builtin", "--engine", "hypothesis", "--shard", "1/2"], "a case depends on those before it"),
    ],
)
def test_bad_usage_is_one_line(command: Command, arguments: list[str], message: str, tmp_path: Path) -> None:
    status, output, errors = command("run", "--out", tmp_path / "out", *arguments)
    assert (status, output, len(errors.splitlines())) == (2, "", 1)
    assert message in errors
    assert not (tmp_path / "out").exists()


def test_new_options_take_the_place_of_those_in_the_folder(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    run_module: Any = importlib.import_module("harness.cli.run")

    def follow(subject: Any, settings: Any, report: str, written: Any) -> int:
        given.append((subject.target, subject.seed, settings))
        CampaignFolder(settings.out).write(settings.options)
        return 0

    monkeypatch.setattr(run_module, "follow", follow)
    out = tmp_path / "out"
    assert command("run", "-t", "builtin", "--seed=7", "--cases", 5, "-j2", "--out", out, "--json")[0] == 0
    assert CampaignFolder(out).read().options == {"target": "builtin", "seed": "7", "cases": "5", "workers": "2"}
    assert command("run", "--resume", out, "--budget", "2m", "-j", 3)[0] == 0
    assert command("run", "--resume", out, "--budget", "0")[0] == 0
    assert [one[:2] for one in given] == [("builtin", 7)] * 3
    first, second, third = (one[2] for one in given)
    assert (first.resume, first.cases, first.seconds, first.workers) == (False, 5, None, 2)
    assert (second.resume, second.cases, second.seconds, second.workers) == (True, None, 120.0, 3)
    assert (third.cases, third.seconds, third.or_start, third.out) == (None, 0.0, True, out)
    assert CampaignFolder(out).read().options["budget"] == "2m", "a part that judges nothing changes no option"


@pytest.mark.long
def test_a_target_with_several_faults_has_the_same_findings_however_it_is_run(
    command: Command, executor_name: str, tmp_path: Path
) -> None:
    """With one worker and two, and as three merged shards."""
    options = ["-t", "builtin+wrong-group+lost-reset", "-e", executor_name, "--scale", "small", "--relations", "none"]
    options += ["--seed", "3", "--cases", "80", "--ops", "postprocess,precopy,advance", "--json"]

    def found(*arguments: object) -> Any:
        status, output, errors = command(*arguments)
        assert status == 1, errors
        result = json.loads(output)
        for finding in result["findings"]:
            finding["repro"] = Path(finding["repro"]).name
        counts = ("cases", "cases_judged", "judged", "skipped", "launches", "regimes", "kernel_lines")
        return {name: result[name] for name in (*counts, "findings", "faults")}

    one = found("run", *options, "--no-shrink", "--out", tmp_path / "one")
    assert len({finding["signature"].split("/")[1] for finding in one["findings"]}) > 1
    assert len(one["findings"]) > 3
    assert found("run", *options, "--no-shrink", "-j", 2, "--out", tmp_path / "two") == one
    for number in (1, 2, 3):
        command("run", *options, "--no-shrink", "--shard", f"{number}/3", "--out", tmp_path / f"part-{number}")
    parts = [tmp_path / f"part-{number}" for number in (1, 2, 3)]
    report = tmp_path / "report.xml"
    merged = ("merge", *parts, "--no-shrink", "--json", "--out", tmp_path / "all", "--report", f"junit={report}")
    assert found(*merged) == one
    outcomes = [each for suite in JUnitXml.fromfile(str(report)) for case in suite for each in case.result]
    texts = [line for each in outcomes for line in (each.text or "").splitlines()]
    assert [texts.count(finding["signature"]) for finding in one["findings"]] == [1] * len(one["findings"])

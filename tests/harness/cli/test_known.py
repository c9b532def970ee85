"""Mutes and baselines on the command line: from a finding to a run that does not fail for it; mistakes are one line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.campaign.mute import Mute
from harness.campaign.mutes import read_mutes
from harness.campaign.stats import FoundSoFar, Stats, StatsFile
from harness.case import encode_case
from harness.check.outcome import CodePlace
from harness.cli.known import _how_wide
from harness.repro import read_repro, write_repro
from harness.subject.subject import Key

Command = Callable[..., tuple[int, str, str]]

FOUND = FoundSoFar("precopy/memory/wrong-bytes/conv/SD", None, 3, 2, None)
OTHER = FoundSoFar("sequence/meaning/wrong-state-read/mamba/-", "left-out-row", 3, 2, None)
SAME = msgspec.structs.replace(OTHER, issue="cut-padding")


def campaign(folder: Path, *findings: FoundSoFar, **changes: Any) -> Path:
    """A folder with the statistics of a campaign of kernel cases that has ended."""
    given: dict[str, Any] = {
        **dict.fromkeys((field.name for field in msgspec.structs.fields(Stats) if field.required), 0),
        **{"subject": "case", "noun": "case", "target": "builtin", "phase": "ended", "exit_status": 1},
        **{"started": "then", "updated": "now", "ended_early": None, "shard": None, "findings": list(findings)},
        **changes,
    }
    (folder / "campaign").mkdir(parents=True)
    text = msgspec.json.encode(StatsFile(campaigns={"case": given}))
    (folder / "campaign" / "stats.json").write_bytes(text)
    return folder


@pytest.fixture
def cwd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.long
def test_from_a_finding_to_a_run_that_does_not_fail_for_it(command: Command, cwd: Path) -> None:
    run = ("run", "-t", "builtin+wrong-group", "--ops", "precopy", "--cases", "128", "--no-shrink", "--json")

    def ran(out: str, *more: str) -> tuple[int, Mapping[str, Any]]:
        status, printed, _ = command(*run, "--out", out, *more)
        return status, json.loads(printed)

    status, first = ran("first")
    assert status == 1
    signatures = [one["signature"] for one in first["findings"]]
    for signature in signatures:
        status, out, err = command("known", "add", "first", "--signature", signature, "--reason", "planted")
        assert (status, err.count("\n")) == (0, 1)
        assert f"this mutes all findings that are named {signature}, those of another fault too" in err
        assert "[[finding]]" in out
    mutes = read_mutes(cwd / "known.toml")
    assert [mute.signature for mute in mutes] == signatures
    assert all(mute.situation is not None for mute in mutes)
    status, muted = ran("second", "--known", "known.toml")
    assert (status, muted["exit_status"]) == (0, 0)
    assert [one["reason"] for one in muted["standing"]["muted"]] == ["planted"] * len(muted["findings"])
    status, still = ran("third", "--baseline", "first")
    assert (status, still["standing"]["baseline"]["new"]) == (0, [])
    assert {one["first_target"] for one in still["standing"]["baseline"]["still"]} == {"builtin+wrong-group"}
    status, printed, _ = command("diff", "first", "third")
    assert status == 0
    assert printed.splitlines()[-1] == f"0 new findings, {len(signatures)} still there, 0 gone"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--known", "none.toml"], "none.toml: No such file"),
        (["--known", "bad.toml"], "bad.toml:1: entry 1: Object missing required field `reason`"),
        (["--baseline", "nowhere"], "there is no nowhere/campaign/stats.json"),
        (["--baseline", "found", "--out", "found"], "--baseline and --out are the same folder"),
        (["--baseline", "found", "--targets", "builtin"], "they exclude --targets"),
    ],
)
def test_a_run_refuses_what_it_cannot_read_before_it_starts(
    command: Command, cwd: Path, arguments: list[str], message: str
) -> None:
    (cwd / "bad.toml").write_text('[[finding]]\nsignature = "x"\n')
    campaign(cwd / "found")
    status, out, err = command(
        "run", "--cases", "1", *([] if "--targets" in arguments else ["-t", "builtin"]), *arguments
    )
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not (cwd / "findings").exists()


def test_an_entry_has_what_was_given(command: Command, cwd: Path) -> None:
    campaign(cwd / "found", FOUND)
    more = ("--link", "https://example.org", "--expires", "2026-12-31", "--to", "mine.toml")
    status, _, err = command("known", "add", "found", "--reason", "known", *more)
    assert status == 0
    assert err.splitlines() == [
        "harness: in which cases this shows is not known, so no run will say that it no longer occurs",
        f"harness: this mutes all findings that are named {FOUND.signature}, those of another fault too: --narrow line "
        "or --narrow case covers less",
    ]
    assert (cwd / "mine.toml").read_text().splitlines() == [
        "[[finding]]",
        f'signature = "{FOUND.signature}"',
        'reason = "known"',
        'link = "https://example.org"',
        "expires = 2026-12-31",
    ]
    status, _, err = command("known", "add", "found", "--reason", "known", "--to", "mine.toml")
    assert status == 2
    assert "mine.toml: entry 1 covers that already" in err


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "all findings that are named a, those of another fault too: --narrow line or --narrow case covers less"),
        ({"issue": "left-out-row"}, "named a [left-out-row], those of another fault too: --narrow line or"),
        ({"line": "x.py:3"}, "named a and that go back to x.py:3, those of another fault too: --narrow case covers"),
        ({"sha256": "12345678"}, ""),
    ],
)
def test_an_entry_is_said_with_what_it_covers(values: dict[str, str], words: str) -> None:
    width = _how_wide(Mute(signature="a", reason="r", **values))  # type: ignore[arg-type]
    assert words in width
    assert bool(words) == bool(width)


@pytest.mark.parametrize(
    ("findings", "arguments", "message"),
    [
        ([], [], "'found' has no finding"),
        ([FOUND, OTHER], [], "'found' has several findings, name one with --signature: precopy/memory"),
        (
            [FOUND],
            ["--signature", "precopy/memory/wrong-byte/conv/SD"],
            "did you mean 'precopy/memory/wrong-bytes/conv/SD'",
        ),
        ([OTHER, SAME], ["--signature", OTHER.signature], f"name one: '{OTHER.signature} [left-out-row]', "),
        ([FOUND], ["--expires", "soon"], "'soon' is no day: write it as 2026-12-31"),
        ([FOUND], ["--reason", ""], "the entry: Expected `str` of length >= 1"),
    ],
)
def test_what_cannot_be_muted_is_one_line(
    command: Command, cwd: Path, findings: list[FoundSoFar], arguments: list[str], message: str
) -> None:
    campaign(cwd / "found", *findings)
    status, out, err = command("known", "add", "found", "--reason", "known", *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not (cwd / "known.toml").exists()


def test_a_finding_is_chosen_by_its_issue_too(command: Command, cwd: Path) -> None:
    campaign(cwd / "found", OTHER, SAME)
    name = f"{OTHER.signature} [cut-padding]"
    assert command("known", "add", "found", "--signature", name, "--reason", "known")[0] == 0
    (mute,) = read_mutes(cwd / "known.toml")
    assert mute.name == name


@pytest.mark.parametrize(("what", "key"), [("line", "line"), ("case", "sha256")])
def test_an_entry_can_be_narrowed(command: Command, cwd: Path, what: str, key: str) -> None:
    corpus = Path(__file__).resolve().parents[3] / "corpus"
    file = corpus / "v2-accepted-race-temporal.json"
    place = CodePlace("vllm/v1/worker/mamba_utils.py", 157, "copy", "store")
    repro = read_repro(file)
    repro = msgspec.structs.replace(repro, evidence=msgspec.structs.replace(repro.evidence, places=(place,)))
    campaign(cwd / "found", FoundSoFar(str(repro.signature), None, 3, 2, f"elsewhere/{file.name}"))
    write_repro(cwd / "found" / file.name, repro)
    status, _, _ = command("known", "add", "found", "--reason", "known", "--narrow", what)
    assert status == 0
    (mute,) = read_mutes(cwd / "known.toml")
    digits = hashlib.sha256(encode_case(repro.case)).hexdigest()[:8]
    assert getattr(mute, key) == (f"{place.file}:{place.line}" if what == "line" else digits)
    assert mute.covers(Key(str(repro.signature)), repro, encode_case(repro.case))


def test_what_cannot_be_narrowed_is_one_line(command: Command, cwd: Path) -> None:
    campaign(cwd / "found", FOUND)
    for what, message in (("line", "does not have the file of this finding"), ("file", "unknown narrowing 'file'")):
        status, out, err = command("known", "add", "found", "--reason", "known", "--narrow", what)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert message in err


def test_a_difference_names_what_is_new(command: Command, cwd: Path) -> None:
    campaign(cwd / "before", FOUND)
    campaign(cwd / "after", OTHER, exit_status=None)
    status, out, err = command("diff", "before", "after")
    assert status == 1
    assert out.splitlines() == [
        "compared with 'before' (builtin, now):",
        f"new {OTHER.signature} [left-out-row]",
        f"not looked at {FOUND.signature}: no case of its kind was judged",
        "1 new finding, 0 still there, 0 gone",
    ]
    assert err == "harness: 'after': the campaign of cases did not reach its end\n"
    status, out, _ = command("diff", "before", "after", "--json")
    assert (status, json.loads(out)["exit_status"]) == (1, 1)
    assert json.loads(out)["findings"] == [f"{OTHER.signature} [left-out-row]"]
    assert json.loads(out)["baseline"]["new"] == [0]
    status, _, err = command("diff", "before", "none")
    assert (status, err.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--baseline", "merged", "--out", "merged"], "--baseline and --out are the same folder"),
        (["--corpus", "merged", "--out", "merged"], "--corpus and --out are the same folder"),
        (["--baseline", "none"], "none"),
        (["--corpus", "none"], "none"),
        (["--known", "none.toml"], "none.toml"),
    ],
)
def test_a_merge_reads_what_was_known_before_it_writes(
    command: Command, cwd: Path, arguments: list[str], message: str
) -> None:
    (cwd / "merged").mkdir()
    status, out, err = command("merge", "shard-1", "shard-2", *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert "shard-" not in err
    assert sorted(path.name for path in cwd.iterdir()) == ["merged"]

"""Profiles: options of `harness run` from a file, which the command line overrides."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., tuple[int, str, str]]
Ran = list[tuple[Any, Any]]
run_module = import_module("harness.cli.run")

NIGHTLY = """
[profile.nightly]
target = "builtin"
ops = "postprocess"
cases = 8
seed = 7
no-shrink = true
out = "nights"
report = ["junit=night.xml"]

[profile.pr]
budget = "90s"
"""


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ran:
    """The subjects and settings of the campaigns that commands start, which end at once; there is a `harness.toml`."""
    started: Ran = []

    def follow(subject: Any, settings: Any, report: str, written: Any) -> int:
        started.append((subject, settings))
        return 0

    monkeypatch.setattr(run_module, "follow", follow)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "harness.toml").write_text(NIGHTLY)
    return started


def test_a_run_has_the_options_of_its_profile(command: Command, ran: Ran) -> None:
    assert command("run", "--profile", "nightly")[0] == 0
    ((subject, settings),) = ran
    assert (subject.target, subject.recipe.operations, subject.seed) == ("builtin", ("postprocess",), 7)
    assert (settings.cases, settings.seconds, settings.shrink, settings.out) == (8, None, False, Path("nights"))
    kept = {"target": "builtin", "ops": "postprocess", "cases": "8", "seed": "7", "no_shrink": True}
    assert settings.options == kept, "a campaign resumes without the file of profiles"
    assert Path("night.xml").exists()


def test_the_command_line_overrides_a_profile(command: Command, ran: Ran) -> None:
    assert command("run", "--profile", "nightly", "--seed", "3", "--out", "here")[0] == 0
    ((subject, settings),) = ran
    assert (subject.seed, settings.out, settings.options["seed"]) == (3, Path("here"), "3")


def test_an_option_takes_the_place_of_the_one_that_it_excludes(command: Command, ran: Ran) -> None:
    assert command("run", "--profile", "nightly", "--budget", "5s")[0] == 0
    ((_, settings),) = ran
    assert (settings.cases, settings.seconds) == (None, 5.0)
    assert "cases" not in settings.options


def test_without_a_profile_the_file_changes_nothing(command: Command, ran: Ran) -> None:
    assert command("run", "-t", "builtin", "--ops", "precopy", "--cases", "5")[0] == 0
    ((subject, settings),) = ran
    assert (subject.seed, settings.cases, settings.out) == (0, 5, Path("findings"))


def test_another_file_is_named(command: Command, ran: Ran) -> None:
    Path("harness.toml").rename("other.toml")
    assert command("run", "--profile", "nightly", "--config", "other.toml")[0] == 0
    assert ran[0][0].seed == 7


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[profile.p]\nsed = 3", "[profile.p]: unknown option 'sed'; did you mean 'seed'?"),
        ("[profile.p]\nno_shrink = true", "unknown option 'no_shrink'; did you mean 'no-shrink'?"),
        ("[profile.p]\nresume = true", "unknown option 'resume'"),
        ('[profile.p]\nprofile = "q"', "unknown option 'profile'"),
        ('[profile.p]\nno-shrink = "yes"', "[profile.p]: no-shrink is true or false"),
        ("[profile.p]\ntarget = true", "[profile.p]: target is no flag: give it a value"),
        ('[profile.p]\nops = ["precopy"]', "[profile.p]: ops is a text or a number, as after --ops"),
        ("[profile.p]\nreport = 7", "[profile.p]: report is a text, or a list of texts"),
        ('[profile.p]\nseed = "x"', "[profile.p]: seed: "),
        ("[profile.p]\nworkers = 0", "[profile.p]: workers: "),
        ('[profile.p]\nbudget = "soon"', "[profile.p]: budget: 'soon' is not a duration"),
        ('[profile.p]\ndomain = "reach"', "[profile.p]: domain: unknown domain 'reach'"),
        ("[profile.q]\nseed = 3", "unknown profile 'p'"),
        ('[profile.p]\ncases = 3\nbudget = "5s"', "[profile.p]: budget and cases exclude each other: leave one out"),
        ('[profile.p]\ntarget = "vllm"\ntargets = "vllm"', "[profile.p]: target and targets exclude each other"),
        ("seed = 3", "unknown key 'seed'; known: profile: options are in a [profile.NAME]"),
        ("profile = 3", "options are in a [profile.NAME]"),
        ("[profile]\np = 3", "options are in a [profile.NAME]"),
        ("[profile.p", "no TOML: "),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(command: Command, ran: Ran, text: str, message: str) -> None:
    Path("harness.toml").write_text(text)
    for name in ("run", "config"):
        status, out, err = command(name, "--profile", "p")
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert err.startswith("harness: harness.toml: ")
        assert message in err
    assert not ran


@pytest.mark.parametrize("text", ["budget = 'LONG'", "known = 'LONG'", "LONG = 1", "ops = 'LONG'"])
def test_a_value_of_any_length_is_refused_in_a_line_that_is_not_long(command: Command, ran: Ran, text: str) -> None:
    Path("harness.toml").write_text(f"[profile.pr]\n{text.replace('LONG', '9' * 4000)}\n")
    status, out, err = command("run", "--profile", "pr")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert len(err) < 1500


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config", "harness.toml"], "--config is the file of a --profile: name one"),
        (["--profile", "p", "--config", "none.toml"], "there is no none.toml with profiles here"),
    ],
)
def test_what_is_wrong_with_the_command_line_is_one_line(
    command: Command, ran: Ran, arguments: list[str], message: str
) -> None:
    status, out, err = command("run", *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_a_folder_that_is_resumed_takes_no_profile(command: Command, ran: Ran) -> None:
    from harness.campaign.folder import CampaignFolder

    CampaignFolder(Path("nights")).write({"target": "builtin", "cases": "8"})
    status, _, err = command("run", "--resume", "nights", "--profile", "pr")
    assert status == 2
    assert "--profile: the folder that is resumed knows its options" in err


def test_help_does_not_read_a_profile(command: Command, ran: Ran) -> None:
    status, out, _ = command("run", "--profile", "none", "--help")
    assert (status, "--profile" in out) == (0, True)


def test_config_says_what_holds_and_where_it_comes_from(command: Command, ran: Ran) -> None:
    status, out, err = command("config", "--profile", "nightly")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert 'target = "builtin"  # harness.toml [profile.nightly]' in lines
    assert "no-shrink = true  # harness.toml [profile.nightly]" in lines
    assert 'report = ["junit=night.xml"]  # harness.toml [profile.nightly]' in lines
    assert 'domain = "both"  # default' in lines
    assert not [line for line in lines if re.match("(# )?(budget|profile|resume|fail-fast) ", line)]
    assert [line for line in lines if line.startswith("# executor is not given: ")]
    status, out, _ = command("config", "--profile", "pr", "--json")
    options = json.loads(out)["options"]
    assert options["budget"] == {"value": "90s", "from": "harness.toml [profile.pr]"}
    assert options["out"] == {"value": "findings", "from": "default"}
    assert options["seed"] == {"value": 0, "from": "default"}, "nought is a value"
    unset = json.loads(out)["unset"]
    assert unset["ops"] == "all"
    assert {"case-limit", "target"} <= unset.keys()
    assert not unset.keys() & {"budget", "cases", "known"}


def test_config_lists_the_profiles(command: Command, ran: Ran) -> None:
    status, out, _ = command("config")
    assert status == 0
    assert out.splitlines()[-1] == "# profiles of harness.toml: nightly, pr"
    Path("harness.toml").unlink()
    status, out, _ = command("config")
    assert (status, "profiles" in out) == (0, False)


@pytest.mark.parametrize("option", ["known", "baseline", "corpus"])
def test_what_is_not_there_is_said_with_the_profile_that_names_it(command: Command, ran: Ran, option: str) -> None:
    """The first night has none of them."""
    Path("harness.toml").write_text(f'[profile.p]\ntarget = "builtin"\ncases = 3\n{option} = "missing"\n')
    status, out, err = command("run", "--profile", "p")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"harness.toml: [profile.p]: {option}: there is no 'missing': " in err
    assert command("config", "--profile", "p")[0] == 0
    status, _, err = command("run", "--profile", "p", f"--{option}", "other")
    assert (status, "profile" in err) == (2, False), "what the command line has takes its place"


def test_the_example_of_the_documentation_works_on_the_first_night(command: Command, ran: Ran) -> None:
    page = (Path(__file__).parents[3] / "docs" / "nightly.md").read_text()
    Path("harness.toml").write_text(page.split("```toml\n[profile.pr]")[1].split("```")[0].join(["[profile.pr]", ""]))
    Path("known.toml").touch()
    status, _, err = command("run", "--profile", "nightly", "--target", "builtin")
    assert (status, err) == (0, "")

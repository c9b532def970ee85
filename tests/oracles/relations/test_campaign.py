"""A relation's finding from the command line: found, shrunk, replayed, reported as fixed; also a crash of a variant."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]


def run(harness: Command, target: str, *more: object) -> dict[str, Any]:
    done = harness("run", "--target", target, "--cases", 60, "--domain", "total", "--scale", "small", "--json", *more)
    assert done.returncode in (0, 1), done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.long
@pytest.mark.usefixtures("faulty_targets")
def test_found_shrunk_replayed_and_reported_fixed(harness: Command, tmp_path: Path) -> None:
    printed = run(harness, "faulty:twenty-programs", "--relations", "temporal-tiles", "--ops", "precopy", "--cases", 12)
    (finding,) = printed["findings"]
    assert finding["signature"] == "precopy/relation:temporal-tiles/differs/temporal/-"
    assert printed["relations"]["temporal-tiles"] > 5
    path = tmp_path / finding["repro"]
    repro = json.loads(path.read_text())
    case = repro["case"]
    assert len(case["program"][0]["rows"]) == 1
    ((layer,),) = [group["layers"] for group in case["layout"]["groups"]]
    (state,) = layer["states"]
    assert state["shape"] == [1]

    replayed = harness("replay", path, "--target", "faulty:twenty-programs")
    assert (replayed.returncode, replayed.stdout.split()[0]) == (1, "FAILED")
    fixed = harness("replay", path, "--target", "builtin")
    assert (fixed.returncode, fixed.stdout.split()[0]) == (0, "FIXED")
    shrunk = harness("shrink", path, "--target", "faulty:twenty-programs", "--json")
    assert shrunk.returncode == 1
    assert json.loads(shrunk.stdout)["signature"] == finding["signature"]


@pytest.mark.long
@pytest.mark.usefixtures("faulty_targets")
def test_without_the_relation_there_is_nothing_to_find(harness: Command) -> None:
    printed = run(harness, "faulty:twenty-programs", "--relations", "none", "--ops", "precopy")
    assert printed["findings"] == []
    assert printed["relations"] == {}


@pytest.mark.long
def test_a_named_relation_that_was_never_defined_fails_the_run(harness: Command) -> None:
    done = harness("run", "--cases", 16, "--ops", "postprocess", "--relations", "scalar-path", "--json")
    assert done.returncode == 3
    assert json.loads(done.stdout)["missing"] == ["relation scalar-path"]


@pytest.mark.long
def test_a_repro_of_an_unknown_relation_is_refused_in_one_line(harness: Command, tmp_path: Path) -> None:
    printed = run(harness, "builtin+wrong-destination", "--ops", "precopy", "--no-shrink", "--fail-fast")
    path = tmp_path / printed["findings"][0]["repro"]
    repro = json.loads(path.read_text())
    repro["signature"]["oracle"] = "relation:no-such-thing"
    path.write_text(json.dumps(repro))
    done = harness("replay", path)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "no-such-thing" in line
    assert "identity-mapping" in line


def test_unknown_relations_are_refused_at_once(harness: Command) -> None:
    done = harness("run", "--cases", 1, "--relations", "repetition,nonsense")
    assert done.returncode == 2
    assert "nonsense" in done.stderr

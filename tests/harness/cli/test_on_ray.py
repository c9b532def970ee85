"""Campaigns on a cluster: what is refused, shards that are kept, and a cluster of which a node is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.campaign import on_ray
from harness.campaign.folder import CampaignFolder
from harness.campaign.shard import Shard
from tests.harness.cli.without_ray import NoRay

Command = Callable[..., tuple[int, str, str]]
CASES = ("-t", "builtin+wrong-group", "--ops", "precopy", "--scale", "small", "--cases", 96, "--seed", 3)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--shard", "1/2"], "--shard and --ray exclude each other"),
        (["--resume"], "--resume and --ray exclude each other: the same command continues"),
        (["--fail-fast"], "--fail-fast and --ray exclude each other"),
        (["--shards", "0"], "greater than or equal to 1"),
    ],
)
def test_what_does_not_go_together_is_refused(command: Command, words: list[str], said: str, tmp_path: Path) -> None:
    status, _, err = command("run", "--ray", "local", "--out", tmp_path / "out", *words)
    assert status == 2
    assert said in err
    assert not (tmp_path / "out").exists()


def test_shards_without_a_cluster_are_refused(command: Command) -> None:
    status, _, err = command("run", "--shards", 4)
    assert status == 2
    assert "--shards is for --ray" in err


def test_without_the_package_one_line_says_what_to_install(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.meta_path", [NoRay(), *sys.meta_path])
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    status, out, err = command("run", "-t", "builtin", "--cases", 8, "--ray", "local", "--out", tmp_path / "out")
    assert (status, out) == (2, "")
    assert err == "harness: --ray needs the package ray: pip install 'mamba-migration-harness[ray]'\n"


def test_a_folder_travels_whole(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "campaign").mkdir(parents=True)
    (source / "campaign" / "one").write_text("1")
    (source / "cases.journal").write_text("2")
    on_ray.unpack(on_ray.pack(source), tmp_path / "deep" / "there")
    there = tmp_path / "deep" / "there"
    assert {str(one.relative_to(there)): one.read_text() for one in there.rglob("*") if one.is_file()} == {
        "campaign/one": "1",
        "cases.journal": "2",
    }


def test_shards_that_are_here_are_not_judged_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"target": "builtin", "cases": "8"}
    for number in (1, 2):
        kept = tmp_path / on_ray.FOLDERS / f"{number}-of-3"
        CampaignFolder(kept).write({**options, "shard": f"{number}/3", **({"seed": "4"} if number == 2 else {})})
    asked: list[Shard] = []

    def judged(options: Any, waiting: Any, *rest: Any) -> Iterator[on_ray.Ended]:
        asked.extend(shard for shard, _ in waiting)
        return iter(())

    monkeypatch.setattr(on_ray, "_judged", judged)
    found = list(on_ray.shards_on_ray(options, 3, tmp_path, on_ray.Cluster("local", 1, 0, str(tmp_path))))
    assert [(str(one.shard), one.node) for one in found] == [("1/3", None)]
    assert [str(one) for one in asked] == ["2/3", "3/3"], "the second one is of another seed"


def test_a_shard_that_cannot_be_judged_says_why() -> None:
    packed, _, refused = on_ray.judge_shard({"target": "vllm==0.0.1", "cases": "8", "shard": "1/2"}, "/nowhere")
    assert packed == b""
    assert refused.startswith("status 2: harness: ")
    assert "0.0.1" in refused


@pytest.mark.long
def test_shards_become_one_campaign_and_are_not_found_by_the_next(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second of two runs judges all again: its target may be another one by then."""
    out, judged = tmp_path / "out", []

    def each(options: Any, waiting: Any, cluster: on_ray.Cluster) -> Iterator[on_ray.Ended]:
        for shard, folder in waiting:
            packed, node, refused = on_ray.judge_shard({**options, "shard": str(shard)}, cluster.folder)
            assert not refused
            on_ray.unpack(packed, folder)
            judged.append(str(shard))
            yield on_ray.Ended(shard, folder, node)

    monkeypatch.setattr(on_ray, "_judged", each)
    words = ("--no-shrink", "--json", "-j", 2)
    alone = json.loads(command("run", *CASES, *words, "--out", tmp_path / "alone")[1])
    for time in (1, 2):
        status, printed, err = command("run", *CASES, *words, "--ray", "local", "--shards", 2, "--out", out)
        assert status == alone["exit_status"] == 1, err
        found = json.loads(printed)
        assert found["cases"] == alone["cases"] == CASES[CASES.index("--cases") + 1]
        assert [one["signature"] for one in found["findings"]] == [one["signature"] for one in alone["findings"]]
        assert judged == ["1/2", "2/2"] * time
        assert not (out / on_ray.FOLDERS).exists()


@pytest.mark.slow
def test_a_cluster_that_loses_a_node_finds_the_same(harness: Any, harness_command: Any, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the package ray is not installed")
    one = json.loads(harness("run", *CASES, "--no-shrink", "--json", "--out", tmp_path / "one").stdout)
    words = harness_command("run", *CASES, "--no-shrink", "--json")[1:]
    many = subprocess.run(
        [sys.executable, "-P", str(Path(__file__).with_name("ray_cluster.py")), "6", "many", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "lost a node" in many.stderr, many.stderr
    found = json.loads(many.stdout)
    for summary in (one, found):
        for finding in summary["findings"]:
            del finding["repro"]  # each has its own folder
    same = ("cases", "findings", "regimes", "exit_status")
    assert {name: found[name] for name in same} == {name: one[name] for name in same}
    assert one["findings"]

"""The corpus: every finding of docs/findings.md replays as its table says."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from harness.case import Buffer, Case, Contents, ConvState, Group, Layer, Layout, Postprocess, PostprocessRow
from harness.generators.reachability import require_reachable
from harness.regimes import REGIMES, regimes_of
from harness.repro import read_repro, write_repro

ROOT = Path(__file__).resolve().parents[1]
HAND_MADE = ("v2-accepted-race-many-programs.json",)
"""Not minimal: on a GPU it shows only at that size."""
CORPUS = sorted((ROOT / "corpus").glob("*.json"))
PAGE = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
SPOT_CHECKED = ("0.23.0", "0.25.0", "0.27.1", "0.29.0", "0.33.0")
"""Releases with the findings, and one after them all."""

Command = Callable[..., "subprocess.CompletedProcess[str]"]


def documented() -> dict[str, dict[str, str]]:
    """Cells of the page's table by file and release: FAILED (`FAILED*` with another signature), FIXED or `-`."""
    lines = PAGE.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| repro |"))
    header = [cell.strip() for cell in lines[start].strip("|").split("|")]
    table: dict[str, dict[str, str]] = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        file = re.search(r"`corpus/([^`]+)`", cells[0])
        assert file, line
        table[file[1]] = dict(zip(header[2:], cells[2:], strict=True))
    return table


def test_every_file_has_a_row_and_every_row_a_file() -> None:
    assert sorted(documented()) == [file.name for file in CORPUS] != []


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.stem)
def test_files_are_minimal_forms_of_what_releases_do(file: Path) -> None:
    repro = read_repro(file)
    if file.name in HAND_MADE:
        assert repro.shrink is None
    else:
        assert repro.shrink is not None
        assert repro.shrink.complete
    assert repro.origin.target.startswith("vllm==")
    if repro.case.domain == "reachable":
        require_reachable(repro.case)
        assert not [name for name in regimes_of(repro.case) if not REGIMES[name].reachable]
    assert f"| {repro.case.domain} |" in next(line for line in PAGE.splitlines() if f"`corpus/{file.name}`" in line)


@pytest.mark.release
def test_a_race_is_not_fixed_because_nobody_looked(harness: Command, executor_name: str) -> None:
    if executor_name != "native":
        pytest.skip("races are seen on the native executor alone")
    done = harness("replay", ROOT / "corpus" / "shift-within-block-sd.json", "--checks", "none")
    assert done.returncode == 3, done.stderr
    assert done.stdout.startswith("SKIPPED ")
    assert "the check of races is off: try `--checks races`" in done.stdout


@pytest.mark.release
def test_a_case_of_thousands_of_copies_is_no_hang(harness: Command, executor_name: str) -> None:
    """64 requests of 128 states: comparing that with each deviation took minutes, which looked like a hang."""
    if executor_name != "native":
        pytest.skip("the race is seen on the native executor alone")
    done = harness("replay", ROOT / "corpus" / HAND_MADE[0])
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("FAILED ")
    assert "not as recorded" not in done.stdout


def wide_window() -> Case:
    """A window in DS layout, 18 tokens of 40 elements, that moves by one token inside its block."""
    window = ConvState(item_size=2, window=18, dim=40, buffer=0, offset=0, block_stride=1440, row_stride=36)
    row = PostprocessRow(slot=0, scheduled=2, computed=14, draft=1, accepted=2, state_column=0)
    return Case(
        domain="reachable",
        layout=Layout(
            conv_layout="DS",
            block_size=16,
            num_spec=15,
            num_blocks=18,
            buffers=(Buffer(size=18 * 1440),),
            groups=(Group(layers=(Layer(states=(window,)),)),),
            table_rows=1,
            table_columns=17,
        ),
        contents=Contents(payload_seed=0, tables=((tuple(range(1, 18)),),), owners=(-1, *[0] * 17)),
        program=(Postprocess(runner="V1", rows=(row,)),),
    )


@pytest.mark.long
@pytest.mark.release
def test_a_race_in_a_ds_window_shrinks_to_one_in_a_ds_window(
    harness: Command, executor_name: str, tmp_path: Path
) -> None:
    """A window in SD layout races as well in that release, for another reason."""
    if executor_name != "native":
        pytest.skip("races are seen on the native executor alone")
    small = read_repro(ROOT / "corpus" / "shift-within-block-ds.json")
    large = tmp_path / "large.json"
    write_repro(large, msgspec.structs.replace(small, case=wide_window(), shrink=None))
    done = harness("shrink", large, "-e", "native", "--out", tmp_path / "small.json")
    assert done.returncode == 1, done.stderr
    shrunk = read_repro(tmp_path / "small.json")
    assert str(shrunk.signature) == "postprocess/race/between-warps/conv/DS"
    assert shrunk.case == small.case


@pytest.mark.long
@pytest.mark.release
def test_the_table_is_what_a_sweep_gives(harness: Command, executor_name: str) -> None:
    targets = ",".join(f"vllm=={release}" for release in SPOT_CHECKED)
    done = harness("sweep", ROOT / "corpus", "--targets", targets, "-e", executor_name, "--json")
    assert done.returncode == 1, done.stderr
    table = documented()
    for finding in json.loads(done.stdout)["findings"]:
        row = table[Path(finding["file"]).name]
        for answer in finding["answers"]:
            release = answer["target"].removeprefix("vllm==")
            shown = "-" if answer["answer"] == "NOT APPLICABLE" else answer["answer"]
            if shown == "FAILED" and not answer["same"]:
                shown = "FAILED*"
            assert shown == row[release], (finding["file"], answer)

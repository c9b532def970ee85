"""The corpus: every finding of docs/findings.md replays as its table says."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.generators.reachability import require_reachable
from harness.regimes import REGIMES, regimes_of
from harness.repro import read_repro

ROOT = Path(__file__).resolve().parents[1]
HAND_MADE = ("v2-accepted-race-many-programs.json", "shift-within-block-ds.json")
"""Not minimal: one is larger because on a GPU it shows only at that size; the other would shrink to a window in SD
layout."""
CORPUS = sorted((ROOT / "corpus").glob("*.json"))
PAGE = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
SPOT_CHECKED = ("0.24.0", "0.27.1", "0.33.0")
"""A release before the findings, one with them, and one after."""

Command = Callable[..., "subprocess.CompletedProcess[str]"]


def documented() -> dict[str, dict[str, str]]:
    """Cells of the page's table by file and release: FAILED, FIXED or `-`."""
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
            assert shown == row[release], (finding["file"], answer)
            assert answer["same"] == (shown == "FAILED")

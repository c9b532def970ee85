"""vLLM releases: their own code runs on the stubs and moves the right bytes, in both layouts."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.kernels.targets.vllm.known_releases import RELEASES

ROOT = Path(__file__).parents[3]
DRIVER = Path(__file__).with_name("drive_vllm.py")
NEWEST = RELEASES[-1]

# The expected result of each operation, calculated by hand from the numbers in drive_vllm.py (block size 4): launches,
# then for each group {block: (conv tokens, temporal value)}, then the accepted counts.
POSTPROCESS = {
    # Slot 0: running 4, 6 tokens afterwards, so 4 are aligned: bias 0, column 1 -> column 0. Slot 1: nothing.
    "postprocess V1": [1, {"1": [[20, 21, 22, 23], 2]}, {"8": [[90, 91, 92, 93], 9]}, [3, 2]],
    # Slot 0: running 3, 4 afterwards: bias 1, inside column 0; the temporal state comes from column 1.
    "postprocess V1 in block": [1, {"1": [[11, 12, 13, 13], 2]}, {"8": [[81, 82, 83, 83], 9]}, [1, 2]],
}
POSTPROCESS_V2 = {
    # Batch row 1 is slot 1, batch row 0 is skipped.
    "postprocess V2": [1, {"4": [[50, 51, 52, 53], 5]}, {"11": [[120, 121, 122, 123], 12]}, [7, 3, 7]],
    "postprocess V2 in block": [1, {"4": [[41, 42, 43, 43], 5]}, {"11": [[111, 112, 113, 113], 12]}, [7, 1, 7]],
}
# Slot 1 moves from column 0 to column 2, advanced by one token. Slot 0 is fresh (V1) or not in the batch (V2).
PRECOPY = [1, {"6": [[41, 42, 43, 63], 5]}, {"13": [[111, 112, 113, 133], 12]}]


def minor(version: str) -> int:
    return int(version.split(".")[1])


def expected(version: str) -> dict[str, Any]:
    release = minor(version)
    results: dict[str, Any] = dict(POSTPROCESS)
    results.update(POSTPROCESS_V2 if release >= 25 else dict.fromkeys(POSTPROCESS_V2, "lacks"))
    if 25 <= release < 28:
        # A defect of these releases: the count is reset in place, and programs of later states read it.
        moved_first = [[41, 42, 43, 43], 4]
        results["postprocess V2 in block"] = [1, {"4": moved_first}, {}, [7, 1, 7]]
    results["precopy V1"] = PRECOPY if release >= 27 else "lacks"
    results["precopy V2"] = PRECOPY if release >= 25 else "lacks"
    return results


@functools.cache
def drive(text: str) -> Any:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TRITON_INTERPRET": "1"}
    result = subprocess.run(
        [sys.executable, str(DRIVER), text], capture_output=True, text=True, env=environment, check=False, timeout=1800
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def releases() -> list[Any]:
    others = [pytest.param(version, marks=pytest.mark.slow) for version in RELEASES[:-1]]
    return [*others, NEWEST]


@pytest.mark.long
@pytest.mark.release
@pytest.mark.parametrize("version", releases())
def test_a_release_moves_what_it_should(version: str, have_release: Callable[[str], str]) -> None:
    report = drive(have_release(f"vllm=={version}"))
    wanted = expected(version)
    conv_layouts = ("SD", "DS") if minor(version) >= 24 else ("SD",)
    for conv_layout in conv_layouts:
        found = {name: report["results"][f"{conv_layout} {name}"] for name in wanted}
        assert found == wanted, conv_layout
    if minor(version) < 24:
        assert "does not yet support" in report["results"]["DS"]
    assert report["rows_by"] == ("slot" if minor(version) >= 32 else "batch")
    assert report["mapping_bits"] == (64 if minor(version) in (28, 29, 30, 32, 33) else 32)


@pytest.mark.long
@pytest.mark.release
@pytest.mark.parametrize("version", releases())
def test_copy_functions_are_validated(version: str, have_release: Callable[[str], str]) -> None:
    """A layer needs a copy function for a prefix of its states: at least one, at most as many as there are states.

    0.29.0 wanted one for each.
    """
    answers = drive(have_release(f"vllm=={version}"))["validation"]
    if minor(version) < 29:
        assert answers == "lacks"
        return
    assert answers["2"] == "accepted"
    assert "missing state copy funcs" in answers["other type"]
    if minor(version) >= 30:
        assert answers["1"] == "accepted"
    for refused in ("0", "3") if minor(version) >= 30 else ("0", "1", "3"):
        assert f"provides {refused} state copy funcs" in answers[refused]


@pytest.mark.release
def test_private_memory_is_named_after_the_attributes_that_hold_it(have_release: Callable[[str], str]) -> None:
    names = drive(have_release(f"vllm=={NEWEST}"))["names"]
    assert {"state_base_addrs", "num_accepted_tokens_out", "block_table_ptrs", "mamba_state_idx_buf"} <= set(names)
    assert len(set(names)) == len(names)


@pytest.mark.long
@pytest.mark.release
def test_a_planted_fault_shows(have_release: Callable[[str], str]) -> None:
    have_release(f"vllm=={NEWEST}")
    results = drive(f"vllm=={NEWEST}+lost-reset")["results"]
    launches, first, second, counts = POSTPROCESS["postprocess V1 in block"]
    assert results["SD postprocess V1 in block"] == [launches, first, second, [2, 2]]
    assert counts != [2, 2]


@pytest.mark.long
@pytest.mark.release
def test_a_checkout_runs_like_the_release_it_equals(have_release: Callable[[str], str]) -> None:
    from harness.kernels.targets.vllm.sources import release_tree

    have_release(f"vllm=={NEWEST}")
    checkout = drive(f"path:{release_tree(NEWEST).directory}")
    assert checkout["results"]["DS precopy V2"] == PRECOPY

"""What a release is said to lack is absent from its sources, or it declines it itself, shown by the call."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.case import Case
from harness.engines.random import Recipe, case_at
from harness.generators.kinds.registry import KINDS
from harness.kernel_cases.worker import CaseWorker
from harness.kernels.targets.vllm.known_releases import RELEASES
from harness.kernels.targets.vllm.sources import release_tree
from tests.releases import edit, editable

CASES = 480
ABSENT = {
    "no fused precopy": r"def run_fused_precopy\b",
    "no fused precopy for V1": r"\bHAS_IDX_MAPPING: tl\.constexpr,(?s:.*)def precopy_mamba_align_fused_kernel|def "
    r"precopy_mamba_align_fused_kernel\((?s:[^)]*)HAS_IDX_MAPPING",
    "no V2 postprocess": r"def run_fused_postprocess_align\b",
    "no advance": r"def preprocess_state\b",
    "no aligned indices": r"def compute_aligned_state_indices\b",
    "no kernel that scatters": r"def _scatter_num_accepted_kernel\b",
    "no kernel that fills": r"def _fill_num_accepted_kernel\b",
    "no bookkeeping of `all` mode": r"def preprocess_mamba_all_specdec\b",
    "list no copies after a step": r"def postprocess_mamba\((?s:.*)collect_mamba_copy_meta",
}
"""Words of a skip, and what its sources would have if they were untrue."""


def releases() -> list[object]:
    return [*(pytest.param(one, marks=pytest.mark.slow) for one in RELEASES[1:-1]), RELEASES[0], RELEASES[-1]]


def worker_sources(release: str) -> str:
    """The text of all files of the release's workers."""
    folder = release_tree(release).directory / "vllm/v1/worker"
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py")))


def drawn(*operations: str, domains: tuple[str, ...] = ("reachable", "total")) -> Iterator[Case]:
    recipe = Recipe(5, domains, operations, "small", addresses="low")  # type: ignore[arg-type]
    return (case_at(recipe, index) for index in range(CASES))


@pytest.mark.long
@pytest.mark.release
@pytest.mark.parametrize("release", releases())
def test_what_a_release_lacks(release: str, have_release: Callable[[str], str], executor_name: str) -> None:
    target = have_release(f"vllm=={release}")
    sources = worker_sources(release)
    skips: dict[str, str] = {}
    with CaseWorker(target, executor_name, limit=60.0) as worker:
        worker.wait_ready()
        for case in drawn(*KINDS):
            for verdict in worker.check(case).verdicts:
                if verdict.reason is not None:
                    assert verdict.reason == "lacks-operation", verdict
                    skips.setdefault(verdict.detail, verdict.operation)
    for words in skips:
        if "it raises" in words:
            assert re.search(r"before vllm 0\.2[79]\.0.*; it raises (AssertionError|IndexError)", words), words
        elif "leaves out" in words:
            assert re.search(r"differ before vllm 0\.29\.0; get_mamba_groups leaves out \d+ groups? of them", words), (
                words
            )
        elif "list no copies with a bias" in words:
            assert "HAS_IDX_MAPPING" in sources, words
        else:
            text = max((text for text in ABSENT if text in words), key=len)
            assert not re.search(ABSENT[text], sources), words


@pytest.mark.long
@pytest.mark.release
def test_copies_listed_after_a_step_are_reachable_where_runners_list_them(
    tmp_path: Path, have_release: Callable[[str], str], executor_name: str
) -> None:
    """As in sister projects, whose batch copy has to keep the order of overlapping shifts."""
    have_release("vllm==0.33.0")
    checkout = editable("0.33.0", tmp_path / "checkout")
    file = "vllm/v1/worker/mamba_utils.py"
    edit(
        checkout,
        file,
        "def collect_mamba_copy_meta(",
        "def postprocess_mamba(*moves):\n    collect_mamba_copy_meta(*moves)\n\n\ndef collect_mamba_copy_meta(",
    )
    edit(checkout, file, "        tl.debug_barrier()\n", "")
    with CaseWorker(f"path:{checkout}", executor_name, limit=60.0) as worker:
        worker.wait_ready()
        found = {str(worker.check(case).signature) for case in drawn("scalar-copy", domains=("reachable",))}
    assert "scalar-copy/race/between-warps/conv/SD" in found


@pytest.mark.long
@pytest.mark.release
def test_an_entry_point_that_declines_leaves_no_unbound_context(
    have_release: Callable[[str], str], executor_name: str
) -> None:
    """It was to bind the context: the next operations on the same memory must not run without one."""
    recipe = Recipe(2, ("reachable", "total"), tuple(KINDS), "full")
    cases = [case_at(recipe, index) for index in range(19136, 19152)]
    assert any(layer.extra for group in cases[0].layout.groups for layer in group.layers)
    need_context = ("postprocess-entry", "postprocess", "precopy", "advance")
    with CaseWorker(have_release("vllm==0.28.0"), executor_name, limit=60.0) as worker:
        worker.wait_ready()
        verdicts = [verdict for case in cases for verdict in worker.check(case).verdicts]
    asked = [verdict for verdict in verdicts if verdict.operation in need_context]
    assert {verdict.operation for verdict in asked} == set(need_context)
    assert {(verdict.status, verdict.reason) for verdict in asked} == {("skip", "lacks-operation")}

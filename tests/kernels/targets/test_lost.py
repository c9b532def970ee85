"""What a checkout has lost is seen from its sources: names, parameters, and calls that are gone."""

from __future__ import annotations

import ast
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.kernels.targets.vllm.base_release import base_of
from harness.kernels.targets.vllm.features import features, moved_files
from harness.kernels.targets.vllm.known_releases import RELEASES
from harness.kernels.targets.vllm.lost import NEEDS, left_operations, lost_operations
from harness.kernels.targets.vllm.sources import HOST, HYBRID, WORKER, cached_tree, checkout_tree
from tests.releases import edit, editable, rename, sources

NEWEST = RELEASES[-1]
LOOKED = f"looked for MambaSpecDecodeGPUContext.run_fused_precopy in {WORKER}, as in vllm {NEWEST}: "

pytestmark = pytest.mark.release


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The newest release, to edit."""
    return editable(NEWEST, tmp_path / "checkout")


def lost_in(checkout: Path) -> list[str]:
    """What is lost, in words."""
    found = lost_operations(checkout_tree(str(checkout)), base_of(f"path:{checkout}"))
    assert {one.operation for one in found} <= NEEDS.keys()
    return [str(one) for one in found]


def test_an_edit_that_no_caller_sees_loses_nothing(checkout: Path) -> None:
    assert lost_in(checkout) == []
    edit(checkout, WORKER, "    def run_fused_precopy(", "    # as before\n    def run_fused_precopy(")
    edit(checkout, HYBRID, "ctx.run_fused_precopy(", "context = ctx\n        context.run_fused_precopy(")
    assert lost_in(checkout) == []


def test_a_renamed_method(checkout: Path) -> None:
    rename(checkout, "run_fused_precopy", "run_fused_pre_copy")
    assert lost_in(checkout) == [f"{operation}: {LOOKED}it is not there" for operation in ("precopy", "preprocess")]


def test_a_method_of_another_class(checkout: Path) -> None:
    edit(checkout, WORKER, "    def run_fused_precopy(", "\n\nclass Precopy:\n    def run_fused_precopy(")
    assert f"precopy: {LOOKED}there is Precopy.run_fused_precopy now" in lost_in(checkout)


def test_other_parameters(checkout: Path) -> None:
    edit(
        checkout,
        WORKER,
        "def run_fused_precopy(\n        self,",
        "def run_fused_precopy(\n        self,\n        stream,",
    )
    line, _ = lost_in(checkout)
    assert line.startswith(f"precopy: {LOOKED}it takes (stream, num_reqs, ")
    assert " now, and took (num_reqs, " in line


@pytest.mark.parametrize(
    ("file", "call", "operation", "name", "runner"),
    [
        (HYBRID, "ctx.run_fused_precopy(", "precopy", "MambaSpecDecodeGPUContext.run_fused_precopy", "V2"),
        (
            HYBRID,
            "self._mamba_ctx.run_fused_postprocess_align(",
            "postprocess",
            "MambaSpecDecodeGPUContext.run_fused_postprocess_align",
            "V2",
        ),
        (HOST, "mamba_utils.preprocess_mamba(", "preprocess", "preprocess_mamba", "V1"),
    ],
)
def test_a_call_that_is_gone(checkout: Path, file: str, call: str, operation: str, name: str, runner: str) -> None:
    edit(checkout, file, call, "print(")
    assert lost_in(checkout) == [
        f"{operation}: {name} is tested, but nothing of the {runner} runner calls it: {file} does not, "
        f"as in vllm {NEWEST}"
    ]


def test_a_call_that_moved_to_another_file(checkout: Path) -> None:
    edit(checkout, HYBRID, "ctx.run_fused_precopy(", "moved(ctx, ")
    (checkout / "vllm/v1/worker/gpu/moved.py").write_text(
        "def moved(ctx, *given):\n    ctx.run_fused_precopy(*given)\n"
    )
    assert lost_in(checkout) == []


@pytest.mark.parametrize(
    "ops", [(), ("--ops", "precopy,postprocess"), ("--ops", "all")], ids=["default", "named", "all"]
)
@pytest.mark.long
def test_a_run_ends_with_status_3(
    harness: Callable[..., subprocess.CompletedProcess[str]], checkout: Path, executor_name: str, ops: tuple[str, ...]
) -> None:
    rename(checkout, "run_fused_precopy", "run_fused_pre_copy")
    run = ("run", "-t", f"path:{checkout}", "-e", executor_name, "--cases", 64, "--scale", "small", *ops)
    done = harness(*run)
    assert done.returncode == 3, done.stderr
    lines = done.stdout.splitlines()
    title = next(line for line in lines if not line.startswith("note "))
    assert title.startswith(f"path:{checkout} (vllm {NEWEST} with 2 files changed; compared: vllm/{{v1,")
    assert f"LOST precopy: {LOOKED}it is not there" in lines
    assert "LOST precopy, preprocess" in lines[-1]
    summary = json.loads(harness(*run, "--json").stdout)
    assert summary["exit_status"] == 3
    assert [one["operation"] for one in summary["lost"]] == ["precopy", "preprocess"]
    assert summary["judged"]["postprocess"]
    assert summary["base"]["version"] == NEWEST


@pytest.mark.long
def test_a_repro_of_a_lost_operation_is_skipped(
    harness: Callable[..., subprocess.CompletedProcess[str]], checkout: Path, executor_name: str
) -> None:
    file = Path(__file__).parents[3] / "corpus" / "shift-within-block-precopy-total.json"
    rename(checkout, "run_fused_precopy", "run_fused_pre_copy")
    done = harness("replay", file, "-t", f"path:{checkout}", "-e", executor_name)
    assert done.returncode == 3, done.stderr
    assert f"LOST: {LOOKED}it is not there" in done.stdout


def test_what_no_caller_sees_of_a_kernel_may_have_another_name(checkout: Path) -> None:
    rename(checkout, "HAS_IDX_MAPPING", "WITH_MAPPING")
    assert lost_in(checkout) == []
    assert features(checkout_tree(str(checkout))).v1_precopy


def test_an_inherited_method_is_there(checkout: Path) -> None:
    path = checkout / WORKER
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    start = next(i for i, line in enumerate(lines) if line.startswith("    def run_fused_precopy("))
    end = next(i for i in range(start + 1, len(lines)) if lines[i].startswith(("    def ", "    @")))
    method = lines[start:end]
    del lines[start:end]
    text = "".join(lines).replace("class MambaSpecDecodeGPUContext:", "class MambaSpecDecodeGPUContext(Precopying):")
    decorated = text.index("@dataclass", text.rindex("\n\n\n", 0, text.index("class MambaSpecDecodeGPUContext")))
    path.write_text(text[:decorated] + "class Precopying:\n" + "".join(method) + "\n\n" + text[decorated:])
    assert lost_in(checkout) == []


def test_a_precopy_without_the_form_of_the_v1_runner(checkout: Path) -> None:
    path = checkout / WORKER
    text = path.read_text(encoding="utf-8")
    start = text.index("def run_fused_precopy(")
    old = "idx_mapping: torch.Tensor | None"
    assert old in text[start : start + 600]
    path.write_text(text[:start] + text[start:].replace(old, "idx_mapping: torch.Tensor", 1), encoding="utf-8")
    assert [one.split(":")[0] for one in lost_in(checkout)] == ["precopy", "preprocess"]


def test_a_function_that_preprocess_calls_in_another_file(checkout: Path) -> None:
    rename(checkout, "do_mamba_copy_block", "copy_block", "vllm/v1/worker")
    assert {one.split(":")[0] for one in lost_in(checkout)} == {"scalar-copy", "preprocess"}


def test_the_name_of_a_kernel_that_only_its_caller_knows(checkout: Path) -> None:
    rename(checkout, "precopy_mamba_align_fused_kernel", "precopy_kernel")
    assert lost_in(checkout) == []


def move(checkout: Path, *, imports: str | None) -> str:
    """Move the code of the worker's file to another one, and import its functions and classes again as `imports` says.
    Returns the other file."""
    path = checkout / WORKER
    text = path.read_text(encoding="utf-8")
    moved = "vllm/v1/worker/mamba_fused.py"
    (checkout / moved).write_text(text, encoding="utf-8")
    names = [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    path.write_text("" if imports is None else f"from {imports} import {', '.join(names)}\n", encoding="utf-8")
    return moved


@pytest.mark.parametrize("module", ["vllm.v1.worker.mamba_fused", ".mamba_fused"])
def test_code_that_moved_and_is_imported_again_is_there(checkout: Path, module: str) -> None:
    before = features(checkout_tree(str(checkout)))
    moved = move(checkout, imports=module)
    tree = checkout_tree(str(checkout))
    assert lost_in(checkout) == []
    assert features(tree) == before
    assert moved_files(tree, WORKER) == (moved,)


@pytest.mark.parametrize("version", RELEASES)
def test_releases_have_all_in_place(version: str) -> None:
    sources(version)
    tree = cached_tree(version)
    assert tree is not None
    assert moved_files(tree, WORKER) == moved_files(tree, HYBRID) == ()


@pytest.mark.long
def test_moved_code_is_judged(
    harness: Callable[..., subprocess.CompletedProcess[str]], checkout: Path, executor_name: str
) -> None:
    move(checkout, imports="vllm.v1.worker.mamba_fused")
    run = ("run", "-t", f"path:{checkout}", "-e", executor_name, "--cases", 16, "--scale", "small", "--json")
    done = harness(*run, "--ops", "precopy,postprocess,preprocess")
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads(done.stdout)
    assert summary["judged"]["precopy"]
    assert summary["lost"] == []
    if executor_name == "native":
        assert summary["edited"]["ran"] > 200


def test_a_target_that_lost_the_context(
    harness: Callable[..., subprocess.CompletedProcess[str]], checkout: Path
) -> None:
    moved = move(checkout, imports=None)
    done = harness("run", "-t", f"path:{checkout}", "--cases", 16)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.splitlines() == [
        f"harness: the checkout {checkout}: LOST all operations: looked for MambaSpecDecodeGPUContext in {WORKER}, "
        f"as in vllm {NEWEST}: it is not there; there is a MambaSpecDecodeGPUContext in {moved}"
    ]


def test_operations_that_left_are_known_without_a_base_release() -> None:
    for version, left in (("0.31.0", set()), ("0.32.0", {"all-mode"}), (NEWEST, {"all-mode"})):
        sources(version)
        tree = cached_tree(version)
        assert tree is not None
        assert left_operations(tree) == left


@pytest.mark.long
def test_without_a_base_release_only_what_left_is_excused(
    harness: Callable[..., subprocess.CompletedProcess[str]], checkout: Path, executor_name: str, tmp_path: Path
) -> None:
    """The answer says that nothing was compared, and what helps."""
    run = (
        "run",
        "-t",
        f"path:{checkout}",
        "-e",
        executor_name,
        "--cases",
        96,
        "--scale",
        "small",
        "--checks",
        "memory",
    )
    offline = {"HARNESS_CACHE_DIR": str(tmp_path / "cache"), "HARNESS_OFFLINE": "1"}
    helps = (
        f"no release was at hand to compare with. What helps: `harness cache fetch {NEWEST}` where there is a network"
    )
    done = harness(*run, **offline)
    assert done.returncode == 0, done.stdout + done.stderr
    assert helps in done.stdout.splitlines()[-1]
    rename(checkout, "stage_postprocess_inputs_to_gpu", "stage_inputs")
    done = harness(*run, **offline)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "missing operation stage: " in done.stdout
    assert f"was not judged (status 3): it may be lost: {helps}" in done.stdout.splitlines()[-1]

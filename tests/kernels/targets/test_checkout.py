"""Checkouts: a tree that is being edited is tested as it is, including faults and typing mistakes."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.kernels.mutations.mutation import mutate
from harness.kernels.mutations.registry import mutation
from harness.kernels.targets.vllm.known_releases import RELEASES
from harness.kernels.targets.vllm.sources import HYBRID, LAYERS, MATH, WORKER
from tests.releases import edit, editable

Command = Callable[..., "subprocess.CompletedProcess[str]"]
ROOT = Path(__file__).parents[3]
COPIES = ("--ops", "postprocess,precopy")
RUN = (*COPIES, "--cases", 48, "--scale", "small", "--relations", "none", "--json", "--no-shrink")

pytestmark = pytest.mark.release


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The newest release as a working copy."""
    return editable(RELEASES[-1], tmp_path / "vllm-checkout")


@pytest.mark.long
def test_an_edit_with_a_fault_is_found(harness: Command, checkout: Path, executor_name: str) -> None:
    target = f"path:{checkout}"
    done = harness("run", "--target", target, "-e", executor_name, *RUN)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["target"] == target

    sources = {file: (checkout / file).read_text(encoding="utf-8") for file in (MATH, LAYERS, WORKER)}
    for file, text in mutate("vllm", sources, [mutation("wrong-destination")]).items():
        (checkout / file).write_text(text, encoding="utf-8")
    done = harness("run", "--target", target, "-e", executor_name, *RUN)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["findings"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        pytest.param(
            WORKER,
            "        if self.is_initialized:\n            return\n        # This only",
            "        if self.is_initialized:\n            self.state_inner_sizes += 1\n"
            "            return\n        # This only",
            id="a-context-that-is-initialised-twice",
        ),
        pytest.param(
            WORKER,
            "state = kv_caches[state_type_idx]\n                    # Base",
            "state = kv_caches[state_type_idx - len(state_copy_funcs)]\n                    # Base",
            id="cache-tensors-that-are-not-copied",
        ),
        pytest.param(
            WORKER,
            "mamba_state_copy_funcs[mamba_spec.mamba_type]\n                attention = forward_context[layer_name]\n"
            "                kv_caches: list[torch.Tensor] = attention.kv_cache\n                if len",
            "next(iter(mamba_state_copy_funcs.values()))\n                attention = forward_context[layer_name]\n"
            "                kv_caches: list[torch.Tensor] = attention.kv_cache\n                if len",
            id="several-types-of-layers",
        ),
    ],
)
def test_an_edit_of_what_surrounds_the_kernels_is_found(
    harness: Command, checkout: Path, executor_name: str, file: str, old: str, new: str
) -> None:
    text = (checkout / file).read_text(encoding="utf-8")
    assert text.count(old) == 1
    (checkout / file).write_text(text.replace(old, new), encoding="utf-8")
    done = harness("run", "--target", f"path:{checkout}", "-e", executor_name, *RUN, "--cases", 480, "--scale", "full")
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["findings"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("old", "new", "message", "status"),
    [
        (
            "tl.program_id(1)",
            "tl.program_idd(1)",
            r"does not compile in mamba_utils\.py line \d+ at `state_idx = tl\.program_idd\(1\)`: AttributeError",
            2,
        ),
        ("class MambaSpecDecodeGPUContext", "class MambaContext", "LOST all operations: looked for MambaSpecDecode", 3),
        (
            "def postprocess_mamba_fused_kernel(",
            "def postprocess_mamba_fused_kernel(:",
            r"is not valid Python: invalid syntax \(mamba_utils\.py, line ",
            2,
        ),
        ("\nimport ", "\nimport no_such_module\nimport ", "No module named 'no_such_module'", 2),
    ],
)
def test_a_broken_edit_is_one_line(
    harness: Command, checkout: Path, executor_name: str, old: str, new: str, message: str, status: int
) -> None:
    if "program_id" in old and executor_name == "interpreter":
        pytest.skip("the interpreter does not compile")
    text = (checkout / WORKER).read_text(encoding="utf-8")
    assert old in text
    (checkout / WORKER).write_text(text.replace(old, new), encoding="utf-8")
    done = harness("run", "--target", f"path:{checkout}", "-e", executor_name, *RUN)
    assert done.returncode == status, done.stderr
    (line,) = done.stderr.splitlines()
    assert re.search(message, line), line
    assert done.stdout == ""


def test_a_checkout_without_the_file(harness: Command, checkout: Path) -> None:
    (checkout / WORKER).unlink()
    done = harness("run", "--target", f"path:{checkout}", "--cases", 1)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"harness: path:{checkout} is not a checkout of vLLM: it has no {WORKER}\n"


@pytest.mark.long
def test_an_installed_package_that_does_not_import(harness: Command, checkout: Path, executor_name: str) -> None:
    """vLLM without its dependencies: its Mamba modules are tested all the same, and the user is told how."""
    (checkout / "vllm/__init__.py").write_text("import no_such_module\n", encoding="utf-8")
    done = harness("run", "--target", "vllm", "-e", executor_name, *RUN, PYTHONPATH=f"{ROOT}:{checkout}")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["target"] == "vllm"
    assert "tested on stubs for the rest of it" in done.stderr
    assert "No module named 'no_such_module'" in done.stderr


@pytest.mark.long
@pytest.mark.release
def test_columns_that_are_counted_in_a_drafters_blocks_are_found(harness: Command, tmp_path: Path) -> None:
    """A drafter may have smaller blocks than layers with states: two settings, which are equal otherwise."""
    checkout = editable("0.33.0", tmp_path / "checkout")
    edit(checkout, HYBRID, "MAMBA_BLOCK_SIZE=mamba_spec.block_size", "MAMBA_BLOCK_SIZE=self.cache_config.block_size")
    options = ("--base", "0.33.0", "--ops", "advance", "--cases", "60", "--seed", "1", "-j", "1", "--fail-fast")
    done = harness("run", "-t", f"path:{checkout}", *options)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "finding advance/memory/wrong-bytes/state_column/-" in done.stdout

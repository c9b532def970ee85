"""Functions that an author has moved into a file of their own are under test."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.kernels.targets.vllm.helpers import with_helpers
from harness.kernels.targets.vllm.sources import WORKER, checkout_tree
from tests.releases import edit, editable

RELEASE = "0.33.0"
KERNELS = ("_memcpy_u64_tiled", "_copy_mamba_state_block")
HOST = ("get_mamba_group_ids",)
NEW = "vllm/v1/worker/moved_{}.py"
IMPORTS = "import torch\nfrom vllm.triton_utils import tl, triton\nfrom vllm.v1.kv_cache_interface import MambaSpec\n"

pytestmark = pytest.mark.release


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return editable(RELEASE, tmp_path / "checkout")


def move(checkout: Path, names: tuple[str, ...], what: str) -> str:
    """Move functions of the worker's file into a new one; returns its name."""
    file = NEW.format(what)
    text = (checkout / WORKER).read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    spans = [
        (min([node.lineno, *(one.lineno for one in node.decorator_list)]) - 1, node.end_lineno)
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef) and node.name in names
    ]
    assert len(spans) == len(names)
    constants = [line for line in lines if line.startswith("_") and ": tl.constexpr = " in line]
    moved = "\n\n".join("".join(lines[first:last]) for first, last in spans)
    for first, last in sorted(spans, reverse=True):
        del lines[first:last]
    (checkout / file).write_text(f"{IMPORTS}{''.join(constants)}\n\n{moved}", encoding="utf-8")
    text = "".join(lines)
    old = "from vllm.triton_utils import tl, triton\n"
    assert text.count(old) == 1
    new = f"{old}from vllm.v1.worker.moved_{what} import {', '.join(names)}\n"
    (checkout / WORKER).write_text(text.replace(old, new), encoding="utf-8")
    return file


def run(harness: Callable[..., Any], checkout: Path) -> Any:
    """A short run of all operations."""
    options = ("--base", RELEASE, "--ops", "all", "--cases", "150", "--seed", "2", "-j", "1", "--fail-fast")
    return harness("run", "-t", f"path:{checkout}", *options)


def test_a_release_has_none(checkout: Path) -> None:
    assert with_helpers(checkout_tree(str(checkout)), (WORKER,)) == (WORKER,)


@pytest.mark.parametrize(("names", "what"), [(KERNELS, "kernels"), (HOST, "host")])
def test_a_new_file_is_found(names: tuple[str, ...], what: str, checkout: Path) -> None:
    file = move(checkout, names, what)
    assert with_helpers(checkout_tree(str(checkout)), (WORKER,)) == (file, WORKER)


@pytest.mark.long
@pytest.mark.parametrize(("names", "what"), [(KERNELS, "kernels"), (HOST, "host")])
def test_code_that_moved_is_tested_as_before(
    names: tuple[str, ...], what: str, checkout: Path, harness: Callable[..., Any]
) -> None:
    move(checkout, names, what)
    done = run(harness, checkout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"edited lines: \d+ of \d+ ran", done.stdout)


@pytest.mark.long
def test_a_mistake_in_code_that_moved_is_found(checkout: Path, harness: Callable[..., Any]) -> None:
    file = move(checkout, KERNELS, "kernels")
    edit(checkout, file, "tail_mask = tail_off < tail_bytes\n", "tail_mask = tail_off < tail_bytes - 1\n")
    done = run(harness, checkout)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"{file}:" in done.stdout

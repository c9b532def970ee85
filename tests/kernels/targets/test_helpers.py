"""Functions that an author has moved into a file of their own are under test."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.kernels.targets.vllm.helpers import may_be_stubbed, with_helpers
from harness.kernels.targets.vllm.importing import module_name
from harness.kernels.targets.vllm.sources import WORKER, checkout_tree
from harness.kernels.targets.vllm.syntax import is_kernel
from harness.kernels.targets.vllm.syntax import kernel_decorators as names
from tests.releases import edit, editable

RELEASE = "0.33.0"
KERNELS = ("_memcpy_u64_tiled", "_copy_mamba_state_block")
HOST = ("get_mamba_group_ids",)
UTILS = "vllm/v1/worker/utils.py"
"""Nothing under test imports it in the release."""
REPLACED = "vllm/v1/utils.py"
"""The harness has its own buffer in place of this file's."""
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


def add_to(checkout: Path, file: str, more: str = "") -> None:
    """Move a function of the worker's file to the end of a file that releases have."""
    added, old = checkout / move(checkout, HOST, "host"), checkout / file
    old.write_text(f"{old.read_text(encoding='utf-8')}\n\n{added.read_text(encoding='utf-8')}{more}", encoding="utf-8")
    added.unlink()
    edit(checkout, WORKER, "vllm.v1.worker.moved_host import", f"{module_name(file)} import")


def test_a_function_that_was_added_to_a_file_of_releases_is_found(checkout: Path) -> None:
    add_to(checkout, UTILS)
    tree = checkout_tree(str(checkout))
    assert with_helpers(tree, (WORKER,)) == (UTILS, WORKER)
    assert may_be_stubbed(tree, UTILS)


def test_a_file_that_is_replaced_stays_replaced(checkout: Path) -> None:
    add_to(checkout, REPLACED)
    assert with_helpers(checkout_tree(str(checkout)), (WORKER,)) == (WORKER,)


def test_a_helper_that_is_stubbed_has_no_lines_to_watch(checkout: Path, harness: Callable[..., Any]) -> None:
    """What the moved function does cannot be judged then, and a line says why."""
    add_to(checkout, UTILS, more="\n1 / 0\n")
    done = harness("run", "-t", f"path:{checkout}", "--base", RELEASE, "--ops", "advance", "--cases", "20")
    assert "Traceback" not in done.stderr
    assert f"{UTILS} does not load: ZeroDivisionError" in done.stdout + done.stderr
    assert "It is stubbed, and what the checkout has added there is not tested" in done.stdout + done.stderr


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


def test_a_package_that_passes_on_what_its_files_have_is_followed(checkout: Path) -> None:
    file = move(checkout, KERNELS, "kernels")
    package = checkout / "vllm/v1/worker/moved"
    package.mkdir()
    (checkout / file).rename(package / "kernels.py")
    (package / "__init__.py").write_text(f"from .kernels import {', '.join(KERNELS)}\n", encoding="utf-8")
    edit(checkout, WORKER, "vllm.v1.worker.moved_kernels", "vllm.v1.worker.moved")
    expected = ("vllm/v1/worker/moved/kernels.py", "vllm/v1/worker/moved/__init__.py", WORKER)
    assert with_helpers(checkout_tree(str(checkout)), (WORKER,)) == expected


@pytest.mark.parametrize(
    "words",
    [
        "from vllm.v1.worker import new",
        "import vllm.v1.worker.new as new",
        "from .new import *",
        "from vllm.v1.worker.new import f as g",
    ],
)
def test_a_new_file_is_found_however_it_is_imported(words: str, checkout: Path) -> None:
    (checkout / "vllm/v1/worker/new.py").write_text("def f() -> int:\n    return 1\n", encoding="utf-8")
    text = (checkout / WORKER).read_text(encoding="utf-8")
    (checkout / WORKER).write_text(f"{text}\n{words}\n", encoding="utf-8")
    assert with_helpers(checkout_tree(str(checkout)), (WORKER,)) == ("vllm/v1/worker/new.py", WORKER)
    assert may_be_stubbed(checkout_tree(str(checkout)), "vllm/v1/worker/new.py")


@pytest.mark.parametrize("words", ["from triton import jit as kernel", "kernel = triton.jit"])
def test_what_triton_compiles_is_known_by_any_name(words: str) -> None:
    module = ast.parse(f"{words}\n\n@kernel(do_not_specialize=['n'])\ndef f(n):\n    pass\n\ndef g():\n    pass\n")
    kernels = [one.name for one in module.body if isinstance(one, ast.FunctionDef) and is_kernel(one, names(module))]
    assert kernels == ["f"]


@pytest.mark.long
def test_new_files_that_import_what_imports_them_or_do_not_load(checkout: Path, harness: Callable[..., Any]) -> None:
    """The first is loaded as vLLM does. The second is only mentioned: it is stubbed, and the run says so."""
    file = move(checkout, HOST, "host")
    text = (checkout / file).read_text(encoding="utf-8")
    (checkout / file).write_text(
        f"{text}\n\nfrom vllm.v1.worker.mamba_utils import MambaCopyBuffers\n", encoding="utf-8"
    )
    (checkout / "vllm/v1/worker/other.py").write_text("import no_such_module\n", encoding="utf-8")
    text = (checkout / WORKER).read_text(encoding="utf-8").replace("from vllm.v1.worker.moved_host import", "PLACE", 1)
    place, _, rest = text.partition("PLACE")
    line, _, after = rest.partition("\n")
    text = f"{place}{after}\nfrom vllm.v1.worker.moved_host import{line}  # noqa: E402\n"
    mention = "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from vllm.v1.worker.other import x\n"
    (checkout / WORKER).write_text(text + mention, encoding="utf-8")
    done = run(harness, checkout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "vllm/v1/worker/other.py does not load: ModuleNotFoundError" in done.stdout + done.stderr
    assert "It is stubbed, and what the checkout has added there is not tested" in done.stdout + done.stderr

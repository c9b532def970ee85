"""Tests for the kernel project's own suite."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from harness.export.form import Request
from harness.export.pytest_function import PYTEST_FUNCTION, identifier
from harness.export.registry import forms
from harness.repro import read_repro
from tests.harness.export.environments import new_environment, run
from tests.releases import sources

CORPUS = Path(__file__).resolve().parents[3] / "corpus"


def text_of(name: str) -> str:
    repro = read_repro(CORPUS / f"{name}.json")
    return PYTEST_FUNCTION.text(Request(name, "case", repro, repro.origin.target))


@pytest.mark.parametrize(
    ("name", "part"), [("ds-window-as-sd", "ds_window_as_sd"), ('x"; import os', "x_import_os"), ("ü", "finding")]
)
def test_the_name_of_a_test_is_an_identifier(name: str, part: str) -> None:
    assert identifier(name) == part
    assert f"test_{identifier(name)}".isidentifier()


def test_it_has_one_test_and_no_command() -> None:
    tree = ast.parse(text_of("ds-window-as-sd"))
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert [name for name in functions if name.startswith("test_")] == ["test_ds_window_as_sd"]
    assert "main" not in functions


def test_every_form_says_what_it_is() -> None:
    for name, form in forms().items():
        assert (form.name, bool(form.summary)) == (name, True)
        assert form.ending in (".py", ".md")


@pytest.mark.slow
@pytest.mark.release
def test_it_fails_on_an_affected_release_and_passes_on_a_fixed_one(tmp_path: Path) -> None:
    """Two tests in one process: windows in SD and in DS layout."""
    python = new_environment(tmp_path / "environment", ["torch", "triton", "numpy", "pytest"])
    for name in ("ds-window-as-sd", "v2-accepted-race-conv-sd"):
        (tmp_path / f"test_{identifier(name)}.py").write_text(text_of(name), encoding="utf-8")
    arguments = ["-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path]
    done = run(python, *arguments, VLLM_SOURCES=str(sources("0.22.0")), TRITON_INTERPRET="1")
    assert "1 failed, 1 skipped" in done.stdout, done.stdout
    assert "run_fused_postprocess_align" not in done.stderr
    done = run(python, *arguments, VLLM_SOURCES=str(sources("0.33.0")), TRITON_INTERPRET="1")
    assert "2 passed" in done.stdout, done.stdout

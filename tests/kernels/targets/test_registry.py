"""The registry of targets: what users write, the messages that they get, and what listing costs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.kernels import cache_directory
from harness.kernels.targets.registry import known_targets, parse
from harness.kernels.targets.releases import OFFLINE_VARIABLE
from harness.refusal import UnknownTarget

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("text", "name", "mutations"),
    [
        ("builtin", "builtin", []),
        ("vllm==0.33.0", "vllm==0.33.0", []),
        ("vllm==0.33.0+wrong-group", "vllm==0.33.0", ["wrong-group"]),
        ("builtin+lost-reset+wrong-group", "builtin", ["lost-reset", "wrong-group"]),
    ],
)
def test_reads_names_and_mutations(text: str, name: str, mutations: list[str]) -> None:
    parsed = parse(text)
    assert (parsed.text, parsed.name) == (text, name)
    assert [mutation.name for mutation in parsed.mutations] == mutations


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"unknown target ''; targets are written builtin, vllm==VERSION, vllm, path:DIRECTORY"),
        ("vlm==0.33.0", r"unknown target 'vlm==0\.33\.0'"),
        ("vllm=0.33.0", r"unknown target"),
        ("vllm==newest", r"'newest' is not a version of vllm"),
        ("vllm==0.33.0+nope", r"unknown fault 'nope'"),
        ("path:/does/not/exist", r"path:/does/not/exist: there is no such directory"),
    ],
)
def test_refuses_bad_texts_in_one_line(text: str, message: str) -> None:
    with pytest.raises(UnknownTarget, match=message) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


def test_a_directory_that_is_no_checkout(tmp_path: Path) -> None:
    with pytest.raises(UnknownTarget, match=r"is not a checkout of vLLM: it has no vllm/v1/worker/mamba_utils\.py"):
        parse(f"path:{tmp_path}")


def test_lists_targets_and_why_some_are_not_available(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache_directory.ENVIRONMENT_VARIABLE, str(tmp_path))
    monkeypatch.setenv(OFFLINE_VARIABLE, "1")
    listed = {target.name: target.unavailable for target in known_targets()}
    assert listed["builtin"] is None
    assert listed["vllm==0.33.0"] == "downloads are forbidden (--offline or HARNESS_OFFLINE)"
    monkeypatch.delenv(OFFLINE_VARIABLE)
    assert {target.name: target.unavailable for target in known_targets()}["vllm==0.33.0"] is None


def test_reading_and_listing_import_neither_torch_nor_triton() -> None:
    program = (
        "import sys\n"
        "from harness.kernels.targets.registry import known_targets, parse\n"
        "parse('vllm==0.33.0+wrong-group')\n"
        "known_targets()\n"
        "print(sorted({'torch', 'triton', 'numpy'} & set(sys.modules)))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
    )
    assert result.stdout == "[]\n"

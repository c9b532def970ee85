"""Compiled kernels are used again only where the source of the emitter and of the runtime is the same."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.kernels.executors.native import variant

FOLDER = Path(variant.__file__).parent


@pytest.mark.parametrize("file", ["emit.py", "llvm/header.ll", "llvm/record.ll"])
def test_a_changed_file_gives_another_digest(tmp_path: Path, file: str) -> None:
    copy = tmp_path / "native"
    shutil.copytree(FOLDER, copy, ignore=shutil.ignore_patterns("__pycache__"))
    assert variant.digest_of(copy) == variant.digest_of(FOLDER)
    with (copy / file).open("a", encoding="utf-8") as stream:
        stream.write("\n")
    assert variant.digest_of(copy) != variant.digest_of(FOLDER)

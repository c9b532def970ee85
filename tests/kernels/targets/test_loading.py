"""Loading: a module from source text, its file, and what is left behind when it fails."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.kernels import cache_directory
from harness.kernels.executors.base import Arena, Executor
from harness.kernels.targets.loading import load_module, source_file

NAME = "harness_loading_test.kernels"
SOURCE = """\
import triton


@triton.jit(do_not_specialize=["n"])
def kernel(n):
    return n + 1
"""


class RecordingExecutor(Executor):
    """Records which functions were made kernels."""

    name = "recording"

    def __init__(self) -> None:
        self.made: list[tuple[str, dict[str, Any]]] = []

    @classmethod
    def unavailable(cls) -> str | None:
        return None

    def allocate(self, size: int) -> Arena:
        raise NotImplementedError

    def jit(self, function: Callable[..., Any], **options: Any) -> Any:
        self.made.append((function.__qualname__, options))
        return function


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(cache_directory.ENVIRONMENT_VARIABLE, str(tmp_path / "cache"))
    yield
    sys.modules.pop(NAME, None)


def test_kernels_reach_the_executor_and_their_source_is_found() -> None:
    executor = RecordingExecutor()
    module = load_module(NAME, SOURCE, executor)
    assert executor.made == [("kernel", {"do_not_specialize": ["n"]})]
    assert sys.modules[NAME] is module
    assert module.__package__ == "harness_loading_test"
    assert inspect.getsource(module.kernel) == "".join(SOURCE.splitlines(keepends=True)[3:])
    assert module.kernel(1) == 2


def test_loading_again_replaces_the_module() -> None:
    first = load_module(NAME, SOURCE, RecordingExecutor())
    second = load_module(NAME, SOURCE.replace("+ 1", "+ 2"), RecordingExecutor())
    assert sys.modules[NAME] is second
    assert (first.kernel(1), second.kernel(1)) == (2, 3)
    assert "+ 1" in inspect.getsource(first.kernel)
    assert "+ 2" in inspect.getsource(second.kernel)


def test_a_failing_module_leaves_nothing_behind() -> None:
    import triton

    before = triton.jit
    with pytest.raises(ZeroDivisionError):
        load_module(NAME, "1 / 0", RecordingExecutor())
    assert NAME not in sys.modules
    assert triton.jit is before
    module = load_module(NAME, SOURCE, RecordingExecutor())
    with pytest.raises(ZeroDivisionError):
        load_module(NAME, "1 / 0", RecordingExecutor())
    assert sys.modules[NAME] is module


def test_an_existing_file_is_used_in_place(tmp_path: Path) -> None:
    path = tmp_path / "kernels.py"
    path.write_text(SOURCE)
    module = load_module(NAME, SOURCE, RecordingExecutor(), path=path)
    assert inspect.getsourcefile(module.kernel) == str(path)
    assert not (tmp_path / "cache").exists()


def test_the_same_text_is_the_same_file_and_damage_is_repaired() -> None:
    file = source_file(NAME, SOURCE)
    assert source_file(NAME, SOURCE) == file
    assert source_file(NAME, SOURCE + "\n") != file
    file.write_text("half a fi")
    assert source_file(NAME, SOURCE).read_text() == SOURCE
    assert [found.name for found in file.parent.iterdir()] == ["kernels.py"]


def test_without_a_writable_cache_a_private_directory_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(cache_directory.ENVIRONMENT_VARIABLE, str(tmp_path / "file" / "cache"))
    module = load_module(NAME, SOURCE, RecordingExecutor())
    assert tmp_path not in Path(inspect.getsourcefile(module.kernel) or "").parents
    assert "n + 1" in inspect.getsource(module.kernel)

"""Whose mistake an exception is: that of the release is a finding, ours is raised again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import harness
from harness.oracles.states.violation import Violation
from harness.sequences import run

OURS = Path(harness.__file__).parent
ADAPTER = OURS / "kernels" / "targets" / "vllm" / "scheduling" / "engine.py"


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a release's package."""
    package = tmp_path / "site-packages" / "vllm"
    monkeypatch.setattr(run, "module", lambda _: SimpleNamespace(__file__=str(package / "__init__.py")))
    return package


def through(*files: Path) -> Callable[[], None]:
    """A function that calls from file to file, and raises in the last."""
    call: Any = None
    for file in reversed(files):
        space: dict[str, Any] = {"call": call}
        code = "call()" if call else "raise IndexError('no such row')"
        exec(compile(f"def of_{file.stem}():\n    {code}\n", str(file), "exec"), space)
        call = space[f"of_{file.stem}"]
    return call  # type: ignore[no-any-return]


def judged(function: Callable[[], None]) -> tuple[Violation, str]:
    try:
        function()
    except IndexError as error:
        return run.SequenceRun._exception(SimpleNamespace(meaning=SimpleNamespace(step=3)), error)  # type: ignore[arg-type]
    raise AssertionError("nothing was raised")


def test_what_the_release_raises_is_a_finding_with_its_place(release: Path) -> None:
    violation, trace = judged(through(ADAPTER, release / "config" / "cache.py", release / "v1" / "pool.py"))
    assert violation.summary == "step 3, the engine: IndexError in of_pool: no such row"
    assert 'File "vllm/v1/pool.py", line 2' in trace
    assert str(release) not in trace


def test_what_our_adapter_raises_is_ours(release: Path) -> None:
    for files in ((ADAPTER,), (release / "v1" / "pool.py", ADAPTER), (release / "v1" / "pool.py", OURS / "a.py")):
        with pytest.raises(IndexError):
            judged(through(*files))


def test_what_another_package_raises_is_whose_call_it_was(release: Path) -> None:
    other = release.parent / "numpy" / "core.py"
    violation, _ = judged(through(ADAPTER, release / "v1" / "pool.py", other))
    assert violation.state == "of_pool"
    with pytest.raises(IndexError):
        judged(through(release / "v1" / "pool.py", ADAPTER, other))
    with pytest.raises(IndexError):
        judged(through(release.parent / "vllm_plugin" / "vllm" / "v1" / "a.py"))

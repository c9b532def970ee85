"""The registry of executors: names, reasons, and the rule that the interpreter is chosen before Triton is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.kernels.executors import registry
from harness.kernels.executors.base import Executor
from harness.kernels.executors.cuda import has_driver
from harness.kernels.executors.registry import (
    UnavailableExecutor,
    create_executor,
    default_executor_name,
    executor_class,
    executor_names,
)

ROOT = Path(__file__).parents[3]
_REASON = executor_class("interpreter").unavailable()
needs_interpreter = pytest.mark.skipif(_REASON is not None, reason=_REASON or "")


def child(program: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    environment.pop("TRITON_INTERPRET", None)
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)


def test_names_and_classes_belong_together() -> None:
    for name in executor_names():
        found = executor_class(name)
        assert issubclass(found, Executor)
        assert found.name == name


def test_listing_names_imports_neither_torch_nor_triton() -> None:
    done = child(
        "import sys; from harness.kernels.executors.registry import executor_names; executor_names()\n"
        "print({'torch', 'triton', 'numpy'} & set(sys.modules))"
    )
    assert done.stdout == "set()\n", done.stderr


@pytest.mark.skipif(has_driver(), reason="with a driver, PyTorch is asked whether there is a GPU")
def test_without_a_driver_the_default_is_chosen_without_torch() -> None:
    """Importing torch takes most of the time of a command that leaves the kernels to its workers."""
    program = (
        "import sys; from harness.kernels.executors.registry import default_executor_name as chosen, why_unavailable\n"
        "print(chosen(), why_unavailable('cuda'), 'torch' in sys.modules, sep='|')"
    )
    assert child(program).stdout == "native|there is no NVIDIA driver (libcuda.so.1)|False\n"


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnavailableExecutor, match=r"^unknown executor 'gpu'; known: cuda, native, interp"):
        create_executor("gpu")


def test_an_unavailable_executor_gives_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    found = executor_class("interpreter")
    monkeypatch.setattr(found, "unavailable", classmethod(lambda cls: "it is Sunday"))
    with pytest.raises(UnavailableExecutor, match=r"^executor interpreter is not available: it is Sunday$"):
        create_executor("interpreter")


def test_the_default_is_the_first_that_runs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    reasons: dict[str, str | None] = {"cuda": "no GPU", "native": None, "interpreter": None}
    for name in executor_names():
        monkeypatch.setattr(executor_class(name), "unavailable", classmethod(lambda cls: reasons[cls.name]))
    assert default_executor_name() == "native"
    reasons["native"] = "no compiler"
    with pytest.warns(UserWarning, match=r"^Triton's interpreter is used, which is slow; native: no compiler$"):
        assert default_executor_name() == "interpreter"
    reasons["interpreter"] = "no Triton"
    with pytest.raises(UnavailableExecutor, match=r"\(cuda: no GPU; native: no compiler; interpreter: no Triton\)$"):
        registry.default_executor_name()


@pytest.mark.long
@needs_interpreter
def test_the_interpreter_chooses_itself_if_triton_is_not_there_yet() -> None:
    done = child(
        "from harness.kernels.executors.registry import create_executor\n"
        "executor = create_executor('interpreter')\n"
        "import triton\n"
        "print(executor.device, triton.knobs.runtime.interpret)"
    )
    assert done.stdout == "cpu True\n", done.stderr


@pytest.mark.long
@needs_interpreter
def test_the_interpreter_refuses_to_come_after_triton() -> None:
    done = child("import triton; from harness.kernels.executors.registry import *; create_executor('interpreter')")
    assert done.stderr.splitlines()[-1].endswith(
        "UnavailableExecutor: executor interpreter is not available: "
        "Triton was imported before TRITON_INTERPRET=1 was set; start a new process with it set"
    )


def test_old_interpreters_do_not_work_with_new_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"torch": "2.10.0", "triton": "3.6.0", "numpy": "2.4.0"}
    monkeypatch.setattr("importlib.metadata.version", versions.__getitem__)
    found = executor_class("interpreter")
    assert "NumPy below 2.4 is needed" in (found.unavailable() or "")
    versions["numpy"] = "2.3.5"
    assert found.unavailable() is None
    versions.update(triton="3.9.0", numpy="2.4.6")
    assert found.unavailable() is None

"""A fault of a GPU ends the worker, and is a finding of the case that caused it. Needs a GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.kernels.executors.cuda import CudaExecutor

pytestmark = pytest.mark.gpu


def test_what_comes_after_a_device_fault_is_judged_by_another_process(
    harness: Callable[..., Any], broken_targets: Path, tmp_path: Path
) -> None:
    """One batch in a hundred or so faults, and the host notices only later: the fault is the one finding, of the case
    that caused it, and all others pass."""
    done = harness("run", "-e", "cuda", "-t", "broken:device-assertion@3", "--ops", "precopy", "--domain", "reachable",
                   "--cases", 160, "--no-shrink", "--relations", "none", "--json")  # fmt: skip
    summary = json.loads(done.stdout)
    assert done.returncode == summary["exit_status"] == 1, done.stderr
    assert (summary["cases"], summary["harness_failures"]) == (160, 0)
    (finding,) = summary["findings"]
    assert finding["signature"] == "precopy/isolation/device-fault/process/-"
    assert 0 < finding["cases"] < 80
    file = json.loads((tmp_path / finding["repro"]).read_text())
    assert any("Assertion" in line for line in file["evidence"]["details"])


def test_only_a_lost_device_is_a_device_fault(broken_targets: Path) -> None:
    """In a process of its own: what CUDA declines is an error of the host, and a fault stays."""
    program = """
import torch
from broken_targets import HARMS
from harness.kernels.executors.cuda import CudaExecutor
executor = CudaExecutor()
try:
    torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
except RuntimeError as error:
    assert not executor.is_device_fault(error)
else:
    raise AssertionError
assert not executor.is_device_fault(ValueError("of the host"))
HARMS["device-assertion"](None)
assert executor.is_device_fault(ValueError("of the host"))
assert executor.is_device_fault(ValueError("and again"))
"""
    reason = CudaExecutor.unavailable()
    if reason is not None:
        pytest.skip(reason)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr

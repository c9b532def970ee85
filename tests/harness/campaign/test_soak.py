"""A campaign that runs for long takes no more of its machine at the end than at the beginning: memory, open files, and
temporary files.

HARNESS_SOAK_SECONDS is how long it runs (180)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest

from harness.worker.memory import resident_bytes

SECONDS = float(os.environ.get("HARNESS_SOAK_SECONDS", "180"))
EVERY = max(2.0, SECONDS / 60)
MOST_GROWTH = 0.1
"""Of the median of the second third to that of the last one. In the first one kernels are compiled; a large layout
takes twice the usual memory for a moment."""


class Sample(NamedTuple):
    """What was there after some seconds: resident megabytes of the parent and of its worker, files that they have open,
    and files in the folder for temporary ones."""

    seconds: float
    parent: float
    worker: float
    parent_files: int
    worker_files: int
    temporary: int


def children(process: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def files_of(process: int) -> int:
    return len(os.listdir(f"/proc/{process}/fd"))


def sample(process: int, temporary: Path, seconds: float) -> Sample:
    (worker,) = children(process)
    megabytes = [resident_bytes(one) / 1e6 for one in (process, worker)]
    files = sum(len(names) for _, _, names in os.walk(temporary))
    return Sample(round(seconds), *megabytes, files_of(process), files_of(worker), files)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_long_campaign_takes_no_more_at_its_end(
    tmp_path: Path, executor_name: str, harness_command: Callable[..., list[str]]
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = harness_command(
        "run", "-t", "builtin", "-e", executor_name, "--budget", f"{SECONDS:g}s", "--out", tmp_path / "out", "--json"
    )
    samples = []
    with subprocess.Popen(
        command, env={**os.environ, "TMPDIR": str(temporary)}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        began = time.monotonic()
        while time.monotonic() - began < SECONDS * 0.95 and process.poll() is None:
            time.sleep(EVERY)
            if time.monotonic() - began > 0.1 * SECONDS and process.poll() is None:
                samples.append(sample(process.pid, temporary, time.monotonic() - began))
        _, errors = process.communicate(timeout=120)
    took = time.monotonic() - began
    for one in samples:
        print(one)
    assert process.returncode in (0, 3), errors.decode()
    assert took < 1.1 * SECONDS
    assert [one for one in temporary.rglob("*") if not one.is_dir()] == [], "nothing is left behind"
    third = len(samples) // 3
    first, last = samples[third : 2 * third], samples[2 * third :]
    for name in Sample._fields[1:]:
        before, after = (median(getattr(one, name) for one in part) for part in (first, last))
        assert after <= (1 + MOST_GROWTH) * before, (name, before, after)

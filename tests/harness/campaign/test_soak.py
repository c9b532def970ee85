"""A campaign that runs for long takes no more of its machine at the end than at the beginning: memory, open files, and
temporary files.

HARNESS_SOAK_SECONDS is how long it runs (180), HARNESS_SOAK_WORKERS how many workers it has (1)."""

from __future__ import annotations

import json
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
WORKERS = int(os.environ.get("HARNESS_SOAK_WORKERS", "1"))
EVERY = max(2.0, SECONDS / 60)
MOST_GROWTH = 0.1
"""Of the median of the second third to that of the last one. In the first one kernels are compiled; a large layout
takes twice the usual memory for a moment."""


class Sample(NamedTuple):
    """What was there after some seconds: resident megabytes of the parent and of all its workers, files that they have
    open, files in the folder for temporary ones, cases that were judged, and how busy the machine was."""

    seconds: float
    parent: float
    workers: float
    parent_files: int
    worker_files: int
    temporary: int
    judged: int
    load: float


MAY_NOT_GROW = ("parent", "workers", "parent_files", "worker_files", "temporary")


def children(process: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def files_of(process: int) -> int:
    return len(os.listdir(f"/proc/{process}/fd"))


def sample(process: int, temporary: Path, out: Path, seconds: float) -> Sample:
    workers = children(process)
    assert len(workers) == WORKERS
    parent, *others = (resident_bytes(one) / 1e6 for one in (process, *workers))
    files = sum(len(names) for _, _, names in os.walk(temporary))
    judged = json.loads((out / "campaign" / "stats.json").read_bytes())["campaigns"]["case"]["judged"]
    opened = sum(map(files_of, workers))
    return Sample(round(seconds), parent, sum(others), files_of(process), opened, files, judged, os.getloadavg()[0])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_long_campaign_takes_no_more_at_its_end(
    tmp_path: Path, executor_name: str, harness_command: Callable[..., list[str]]
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = harness_command(
        "run",
        "-t",
        "builtin",
        "-e",
        executor_name,
        "--budget",
        f"{SECONDS:g}s",
        "-j",
        WORKERS,
        "--out",
        tmp_path / "out",
        "--json",
    )
    samples = []
    with subprocess.Popen(
        command, env={**os.environ, "TMPDIR": str(temporary)}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        began = time.monotonic()
        while time.monotonic() - began < SECONDS * 0.95 and process.poll() is None:
            time.sleep(EVERY)
            if time.monotonic() - began > 0.1 * SECONDS and process.poll() is None:
                samples.append(sample(process.pid, temporary, tmp_path / "out", time.monotonic() - began))
        _, errors = process.communicate(timeout=120)
    took = time.monotonic() - began
    for one in samples:
        print(one, flush=True)
    assert process.returncode in (0, 3), errors.decode()
    assert took < 1.1 * SECONDS
    assert [one for one in temporary.rglob("*") if not one.is_dir()] == [], "nothing is left behind"
    third = len(samples) // 3
    first, last = samples[third : 2 * third], samples[2 * third :]
    for name in MAY_NOT_GROW:
        before, after = (median(getattr(one, name) for one in part) for part in (first, last))
        assert after <= (1 + MOST_GROWTH) * before, (name, before, after)

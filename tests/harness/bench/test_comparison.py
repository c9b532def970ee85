"""Reports of the kernel benchmark as files: how they are compared, and what is refused in one line, without PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from harness.bench.comparison import compare
from harness.bench.report import LONGEST, MAX_BYTES, SHORTEST, Report, Row, Sample

Command = Callable[..., tuple[int, str, str]]


def row(requests: int, microseconds: float = 1.0, target: str = "builtin") -> Row:
    return Row(
        shape="small",
        conv_layout="SD",
        aligned=True,
        operation="step V2",
        fill="idle",
        requests=requests,
        movers=0,
        bytes=0,
        measure="graph",
        times={target: Sample(microseconds, 0.0)},
    )


def report(*rows: Row) -> Report:
    return Report(device="none", torch="0", triton="0", python="0", targets=["builtin"], seconds=1.0, rows=rows)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return saved(tmp_path / "good.json", report(row(1), row(2)))


def saved(path: Path, one: Report) -> Path:
    path.write_bytes(msgspec.json.encode(one))
    return path


def refused(printed: tuple[int, str, str], *words: str) -> None:
    status, out, errors = printed
    assert (status, out, len(errors.splitlines())) == (2, "", 1)
    assert all(word in errors for word in words), errors


@pytest.mark.parametrize("microseconds", [0.0, -1.0, 5e-324, 1e300])
def test_no_launch_takes_such_a_time(microseconds: float, good: Path, tmp_path: Path, command: Command) -> None:
    odd = saved(tmp_path / "odd.json", report(row(1, microseconds), row(2)))
    for files in ((good, odd), (odd, good)):
        refused(command("bench", "compare", *files), "odd.json is not a report", "microseconds")


def test_a_negative_spread_is_refused(good: Path, tmp_path: Path, command: Command) -> None:
    odd = tmp_path / "odd.json"
    odd.write_bytes(good.read_bytes().replace(b'"spread":0.0', b'"spread":-0.1'))
    refused(command("bench", "compare", good, odd), "odd.json is not a report", "spread")


def test_the_mean_of_the_most_unequal_times() -> None:
    result = compare(report(row(1, LONGEST)), report(row(1, SHORTEST)), 0.05)
    assert result.mean == 0.0
    assert not result.changes[0].slower


@pytest.mark.parametrize("text", [b'{"unknown": %s}' % (b"[" * 100_000), b"\xff", b"", b"[]", b"1" * 5000])
def test_no_report_at_all(text: bytes, good: Path, tmp_path: Path, command: Command) -> None:
    odd = tmp_path / "odd.json"
    odd.write_bytes(text)
    refused(command("bench", "compare", good, odd), "odd.json is not a report")


def test_rows_that_measure_the_same_are_refused(good: Path, tmp_path: Path, command: Command) -> None:
    twice = saved(tmp_path / "twice.json", report(row(1), row(1, 2.0), row(2)))
    for files in ((good, twice), (twice, good)):
        refused(command("bench", "compare", *files), "two of its rows measure the same")


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_nothing_in_common_is_refused(options: tuple[str, ...], good: Path, tmp_path: Path, command: Command) -> None:
    for other in (report(row(3)), report(), report(row(1, target="other"))):
        file = saved(tmp_path / "other.json", other)
        refused(command("bench", "compare", good, file, *options), "no measurement in common")


def test_only_regular_files_are_read(good: Path, tmp_path: Path, command: Command) -> None:
    pipe, large = tmp_path / "pipe", tmp_path / "large.json"
    os.mkfifo(pipe)
    with large.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    refused(command("bench", "compare", good, "/dev/zero"), "not a regular file")
    refused(command("bench", "compare", pipe, good), "not a regular file")
    refused(command("bench", "compare", tmp_path, good), "directory")
    refused(command("bench", "compare", tmp_path / "missing", good), "No such file")
    refused(command("bench", "compare", large, good), "more bytes than a report may have")


@pytest.mark.parametrize("threshold", ["inf", "nan", "1e999", "-1"])
def test_a_threshold_is_a_share(threshold: str, good: Path, command: Command) -> None:
    refused(command("bench", "compare", good, good, "--threshold", threshold), "threshold")


def test_a_byte_order_mark_is_ignored(good: Path, tmp_path: Path, command: Command) -> None:
    marked = tmp_path / "marked.json"
    marked.write_bytes(b"\xef\xbb\xbf" + good.read_bytes())
    status, printed, _ = command("bench", "compare", good, marked)
    assert (status, printed) == (
        0,
        "2 measurements, times 1.000 on average; 0 slower; 0 only in the first, 0 only in the second\n",
    )


def test_comparing_takes_neither_torch_nor_triton(good: Path) -> None:
    start = "import sys; sys.modules['torch'] = sys.modules['triton'] = None; from harness.cli.main import main; main()"
    arguments = [sys.executable, "-P", "-c", start, "bench", "compare", good, good]
    assert subprocess.run(arguments, capture_output=True, text=True, check=True).stderr == ""

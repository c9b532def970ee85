"""The pytest plugin: inert without its options; with them one item for each operation, whose findings are failures."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.kernel_cases.subject import KernelCases
from harness.kernels.targets.vllm.known_releases import RELEASES
from harness.repro import read_repro
from tests.processes import children, is_running, wait_for
from tests.releases import editable, rename

Suite = Callable[..., "subprocess.CompletedProcess[str]"]

NEWEST = RELEASES[-1]

INERT = """
import sys

def test_imports():
    assert not {"torch", "typer", "harness.cli", "harness.generators"} & {*sys.modules}
"""


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    """Run pytest in an empty folder, as another project would."""
    if not entry_points(group="pytest11", name="harness"):
        pytest.skip("the installed harness has no pytest plugin: install it again")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)

    return run


def test_it_is_inert_without_its_options(suite: Suite, tmp_path: Path) -> None:
    (tmp_path / "test_imports.py").write_text(INERT)
    done = suite("--strict-markers")
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--harness-ops", "postprocces"), "harness: unknown operation 'postprocces'; did you mean 'postprocess'?"),
        (("--harness-budget", "soon"), "harness: 'soon' is not a duration: write 60s, 5m or 2h"),
        (("--harness-seed", "-1"), "harness: --harness-seed must not be negative"),
        (("--harness-cases", "0"), "harness: --harness-cases must be at least 1"),
    ],
)
def test_options_that_make_no_sense_are_refused_in_one_line(
    suite: Suite, options: tuple[str, ...], message: str
) -> None:
    done = suite("--harness-target", "builtin", *options)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    (line,) = filter(None, done.stderr.splitlines())
    assert line.startswith(f"ERROR: {message}")


def test_an_unknown_target_fails_with_the_line_of_the_command(suite: Suite) -> None:
    done = suite("--harness-target", "nonsense", "--harness-ops", "precopy")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "harness: unknown target 'nonsense'" in done.stdout
    assert "Traceback" not in done.stdout


@pytest.mark.long
def test_each_operation_is_an_item_also_under_xdist(suite: Suite) -> None:
    options = ("--harness-target", "builtin", "--harness-ops", "postprocess,precopy", "--harness-cases", "16")
    listed = suite("--collect-only", *options)
    assert listed.stdout.splitlines()[:2] == ["harness::postprocess", "harness::precopy"]
    done = suite("-n", "2", "-rA", *options)
    assert done.returncode == 0, done.stdout
    assert {"PASSED harness::postprocess", "PASSED harness::precopy"} <= {*done.stdout.splitlines()}
    assert "harness::precopy: 16 cases, " in done.stdout, "how much it looked at"
    chosen = suite("-k", "precopy", "-rA", *options)
    assert "1 passed, 1 deselected" in chosen.stdout


@pytest.mark.long
def test_findings_fail_the_item_and_name_their_files(suite: Suite, tmp_path: Path) -> None:
    done = suite(
        *("--harness-target", "builtin+wrong-group", "--harness-ops", "precopy", "--harness-cases", "256"),
        *("--harness-out", "found", "--junitxml", "report.xml"),
    )
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    files = [line.split()[-1] for line in done.stdout.splitlines() if line.startswith("  harness replay ")]
    assert files
    assert all(read_repro(Path(file)).signature.operation == "precopy" for file in files)
    assert all(Path(file).is_relative_to(tmp_path / "found" / "precopy") for file in files)
    report = ElementTree.parse(tmp_path / "report.xml")
    assert report.find(".//property[@name='harness-finding']") is not None


@pytest.mark.long
@pytest.mark.release
def test_what_a_target_lacks_is_skipped_with_the_reason(suite: Suite) -> None:
    done = suite("--harness-target", "vllm==0.32.0", "--harness-ops", "all-mode", "--harness-cases", "16", "-rs")
    assert done.returncode == 0, done.stdout
    assert "1 skipped" in done.stdout
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("SKIPPED"))
    assert "vllm==0.32.0 has no bookkeeping" in line


@pytest.mark.long
@pytest.mark.release
def test_what_a_checkout_has_lost_is_no_skip(suite: Suite, tmp_path: Path) -> None:
    """Its base release has the operation: that it is gone is what the author has to see."""
    checkout = editable(NEWEST, tmp_path / "checkout")
    rename(checkout, "run_fused_precopy", "run_precopy_fused")
    done = suite("--harness-target", f"path:{checkout}", "--harness-ops", "precopy", "--harness-cases", "16")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "\nLOST " in done.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--harness-budget", "5m"), "harness: --harness-budget needs --harness-target, which names what to test"),
        (("--harness-target", ""), "harness: --harness-target needs --harness-target"),
        (
            ("--harness-target", "builtin", "--harness-budget", "5m", "--harness-cases", "5"),
            "harness: --harness-budget and --harness-cases exclude each other",
        ),
    ],
)
def test_options_that_would_test_nothing_are_refused(suite: Suite, options: tuple[str, ...], message: str) -> None:
    done = suite(*options)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    (line,) = filter(None, done.stderr.splitlines())
    assert line.startswith(f"ERROR: {message}")


@pytest.mark.long
def test_an_interrupt_ends_the_campaign_too(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--harness-target", "builtin"]
    out = tmp_path / "found"
    running = subprocess.Popen(
        [*command, "--harness-ops", "precopy", "--harness-budget", "30m", "--harness-out", str(out)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    journal = out / "precopy" / KernelCases.journal
    wait_for(lambda: running.poll() is not None or (journal.is_file() and journal.read_bytes().count(b"\n") > 3))
    started = children(running.pid)
    running.send_signal(signal.SIGINT)
    printed, _ = running.communicate(timeout=300)
    assert running.returncode == pytest.ExitCode.INTERRUPTED
    assert "\nharness::precopy: harness: terminated: no finding, after " in printed
    wait_for(lambda: not any(map(is_running, started)))

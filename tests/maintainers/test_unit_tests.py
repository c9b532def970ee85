"""The unit tests of reports: each fails on the releases that have its issue, and passes with the suggested rule."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.issues.registry import SEQUENCE_ISSUES, issues_of
from harness.kernels.targets.vllm.known_releases import RELEASES
from tests.maintainers.run_checks import PASSES
from tests.releases import with_scheduler

ROOT = Path(__file__).resolve().parents[2]
REPORTS = ROOT / "docs" / "reports"
HERE = Path(__file__).parent
NOT_CHECKS = {"objects", "run_checks", Path(__file__).stem}
PARTS = {
    "decode_graph_by_shape": "recomputed-as-decode",
    "other_builders": "recomputed-as-decode",
    "several_mtp_modules": "uncounted-draft-slots",
}
"""Checks that are not called like the issue of whose report they are part."""
CHECKS = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in NOT_CHECKS)
OLDEST = "0.25.0"
"""The first release whose scheduler is driven."""
FREE = {
    "uncounted_draft_slots": ("0.27.0", "0.27.1"),
    "several_mtp_modules": ("0.25.0", "0.25.1", "0.26.0", "0.27.0", "0.27.1"),
}
"""Releases that a check passes on, although its issue's first and last release are around them."""
DRIVEN = [release for release in RELEASES[RELEASES.index(OLDEST) :] if release != RELEASES[-1]]


def issue_name(check: str) -> str:
    return PARTS.get(check, check.replace("_", "-"))


def affected(check: str, release: str) -> bool:
    (issue,) = issues_of(issue_name(check))
    return issue.is_in_release(release)


def answers(release: str) -> dict[str, list[str]]:
    """What the checks of the issues of a release say."""
    target = with_scheduler(f"vllm=={release}")
    names = [check for check in CHECKS if affected(check, release)]
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tests.maintainers.run_checks", target, *names],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": path},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    assert set(found) == set(names)
    return found


def assert_shown(release: str) -> None:
    found = answers(release)
    assert found, f"no report is about {release}"
    for check, (plain, suggested) in found.items():
        if release in FREE.get(check, ()):
            assert plain == PASSES, f"{check} on {release}, which is free of its issue: {plain}"
            continue
        assert plain != PASSES, f"{check} does not show its issue on {release}"
        assert suggested == PASSES, f"{check} on {release} with the suggested rule: {suggested}"


@pytest.mark.long
@pytest.mark.release
def test_they_fail_on_the_newest_release_and_pass_with_the_suggested_rule() -> None:
    assert_shown(RELEASES[-1])


@pytest.mark.slow
@pytest.mark.release
@pytest.mark.parametrize("release", DRIVEN)
def test_they_fail_on_every_older_release_that_has_the_issue(release: str) -> None:
    assert_shown(release)


def test_every_report_has_its_unit_test_and_names_it() -> None:
    reported = {issue.name for issue in SEQUENCE_ISSUES if issue.report.startswith("docs/reports/")}
    assert {issue_name(check) for check in CHECKS} == reported == {path.stem for path in REPORTS.glob("*.md")}
    for check in CHECKS:
        assert f"tests/maintainers/{check}.py" in (REPORTS / f"{issue_name(check)}.md").read_text(encoding="utf-8")


HEADINGS = (
    "Symptom",
    "Cause",
    "Conditions",
    "Releases",
    "Smallest events",
    "Unit test",
    "Suggested rule",
    "Related",
    "What was run",
)


@pytest.mark.parametrize("path", sorted(REPORTS.glob("*.md")), ids=lambda path: path.stem)
def test_reports_have_the_same_headings_in_the_same_order(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"^# .+", text, re.MULTILINE)[0] == text.splitlines()[0]
    assert tuple(re.findall(r"^## (.+)", text, re.MULTILINE)) == HEADINGS

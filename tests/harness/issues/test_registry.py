"""The registry of known issues: one file and one name for each, and the old names of fixes."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace as replace_struct

from harness.case.problem import InvalidCase
from harness.check.outcome import Signature
from harness.issues.change import Change
from harness.issues.known_issue import KnownIssue
from harness.issues.registry import (
    DEFAULT_FIXES,
    KERNEL_ISSUES,
    KNOWN_ISSUES,
    SEQUENCE_ISSUES,
    current_name,
    issues_of,
    kernel_issue,
    kernel_regression,
    lines_about,
)
from harness.issues.sequence_issue import SPLIT, SequenceIssue
from harness.kernels.targets.vllm.known_releases import RELEASES
from harness.kernels.targets.vllm.scheduling.release_source import ReleaseSource
from harness.kernels.targets.vllm.scheduling.rules import ColumnUnit, RunnerRules
from harness.repro import Repro, read_repro
from harness.sequences.controls import Controls
from harness.sequences.faults import FAULTS
from tests.releases import sources

ROOT = Path(__file__).resolve().parents[3]
FILES = ROOT / "harness" / "issues"
RULES = RunnerRules(zero_drafts=False, padded_tails=False, recomputed_as_decodes=True, column_unit=ColumnUnit.SMALLEST)
"""The rules of a release that has every issue of rules."""


@pytest.fixture
def issue_texts() -> dict[str, str]:
    """The text of each file of a known issue of step sequences."""
    return {path.stem: path.read_text() for path in (FILES / "sequences").glob("*.py") if path.stem != "__init__"}


def file_names(folder: str) -> set[str]:
    return {path.stem.replace("_", "-") for path in (FILES / folder).glob("*.py") if path.stem != "__init__"}


def test_every_file_is_registered_under_its_name() -> None:
    assert [issue.name for issue in SEQUENCE_ISSUES] == sorted(set(DEFAULT_FIXES), key=DEFAULT_FIXES.index)
    assert set(DEFAULT_FIXES) == file_names("sequences")
    assert {issue.name for issue in KERNEL_ISSUES} == file_names("kernels")
    assert len({issue.name for issue in KNOWN_ISSUES}) == len(KNOWN_ISSUES)


@pytest.mark.parametrize("issue", SEQUENCE_ISSUES, ids=lambda issue: str(issue.name))
def test_a_fix_that_wraps_the_split_says_that_it_cannot_do_without_it(issue: SequenceIssue) -> None:
    """Else a checkout that renamed the function ends in an error of ours."""
    text = (FILES / "sequences" / f"{issue.name.replace('-', '_')}.py").read_text()
    assert (SPLIT in issue.patches) == ("wrap_split(" in text or SPLIT.name.split(".")[-1] in text)


@pytest.mark.release
@pytest.mark.parametrize(
    "issue", [issue for issue in SEQUENCE_ISSUES if issue.patches], ids=lambda issue: str(issue.name)
)
def test_the_release_that_brought_an_issue_has_what_its_fix_patches(issue: SequenceIssue) -> None:
    """A name that no release has would never be lost."""
    assert issue.since is not None
    source = ReleaseSource(sources(issue.since), issue.since)
    assert [name for name in issue.patches if not source.has(*name)] == []


def test_a_fix_of_functions_says_which(issue_texts: dict[str, str]) -> None:
    """So that a checkout without them has lost them, whatever sequences are drawn. Only a fix that rewrites the main
    function of a scheduler need not: all sequences need that."""
    silent = {name for name, text in issue_texts.items() if "Change(engine=" in text and "patches=" not in text}
    assert silent == {name for name, text in issue_texts.items() if "rewrite_schedule(" in text}


@pytest.mark.parametrize("issue", KNOWN_ISSUES, ids=lambda issue: str(issue.name))
def test_releases_are_known_ones_and_in_order(issue: KnownIssue) -> None:
    assert issue.since in RELEASES
    assert issue.until is None or RELEASES.index(issue.since) < RELEASES.index(issue.until)


def test_the_releases_of_an_issue_are_an_expression_of_versions() -> None:
    one, other = issues_of("zero-draft-row+left-out-row")
    assert (one.releases, other.releases) == (">=0.25.0,<0.32.0", ">=0.25.0")


@pytest.mark.parametrize("issue", SEQUENCE_ISSUES, ids=lambda issue: str(issue.name))
def test_every_fix_changes_rules_or_an_engine(issue: SequenceIssue) -> None:
    changes_rules = issue.change.rules(RULES) != RULES
    assert changes_rules != (issue.change.engine is not Change().engine)


def test_old_names_of_fixes_are_taken_and_the_issues_names_kept() -> None:
    old = [issue.old_name for issue in SEQUENCE_ISSUES if issue.old_name is not None]
    assert len(old) == len(set(old)) >= 19, "no file may become unreadable"
    assert not set(old) & set(DEFAULT_FIXES)
    assert Controls(fixes=("keep-accepted", "left-out-row", "drained-queue")).fixes == ("left-out-row", "drained-queue")
    assert Controls(faults=("kept-columns", "kept-columns")).faults == ("kept-columns",)
    assert current_name("whole-paddings") == "whole-paddings"
    with pytest.raises(InvalidCase, match="unknown fix 'whole-paddings'"):
        Controls(fixes=("whole-paddings",))


def test_rules_are_changed_by_the_fixes_asked_for_alone() -> None:
    controls = Controls(fixes=("padded-fresh-row", "checkpoint-into-running-block"))
    assert controls.rules(RULES) == replace(RULES, fresh_rows_start_empty=True, checkpoints_need_blocks=True)
    assert Controls().rules(RULES) == RULES


def test_a_planted_fault_survives_a_fix_of_the_same_rule() -> None:
    rules = Controls(faults=("plain-decode-row",), fixes=DEFAULT_FIXES).rules(replace(RULES, zero_drafts=True))
    assert not rules.zero_drafts
    assert Controls(fixes=DEFAULT_FIXES).rules(RULES).zero_drafts


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_changes_rules_or_an_engine(name: str) -> None:
    change = FAULTS[name].change
    newest = replace(RULES, zero_drafts=True, padded_tails=True, column_unit=ColumnUnit.MAMBA)
    changes_rules = any(change.rules(rules) != rules for rules in (RULES, newest))
    assert changes_rules != (change.engine is not Change().engine)


@pytest.mark.parametrize("field", [field.name for field in fields(RunnerRules)])
def test_every_rule_is_read_by_a_model_of_a_runner(field: str) -> None:
    """A fix of a rule that nothing reads would change nothing."""
    readers = [*(ROOT / "kernels/targets/vllm/scheduling").glob("*.py"), ROOT / "harness/sequences/run.py"]
    texts = [path.read_text(encoding="utf-8") for path in readers if not path.name.startswith("rules")]
    assert any(re.search(rf"\brules\.{field}\b", text) for text in texts)


def test_issues_are_described_in_a_line_each() -> None:
    assert lines_about(None) == lines_about("no-such-issue") == []
    first, second = lines_about("drained-queue+left-out-row")
    assert first.startswith("drained-queue: ")
    assert second.endswith("(docs/reports/left-out-row.md)")


KERNEL_FILES = {
    "accepted-count-race": "v2-accepted-race-*.json",
    "address-past-2-63": "address-past-2-63.json",
    "shift-within-block": "shift-within-block-[sp]*.json",
    "shift-within-block-ds": "shift-within-block-ds.json",
    "ds-window-as-sd": "ds-window-as-sd*.json",
    "ds-bias-refused": "ds-bias-refused.json",
    "ds-drafts-refused": "ds-drafts-refused*.json",
    "uncopied-states-refused": "uncopied-states-refused.json",
}
"""Files of the corpus, by the known issue that they show."""
SHOWN = [(name, path) for name, pattern in KERNEL_FILES.items() for path in sorted((ROOT / "corpus").glob(pattern))]


@pytest.mark.parametrize(("name", "path"), SHOWN, ids=[path.stem for _, path in SHOWN])
def test_a_finding_of_kernels_looks_like_its_issue_in_releases_that_have_it(name: str, path: Path) -> None:
    repro = read_repro(path)
    assert isinstance(repro, Repro)
    (issue,) = (one for one in KERNEL_ISSUES if one.name == name)

    def found(target: str) -> KnownIssue | None:
        return kernel_issue(target, repro.signature, repro.case)

    assert issue.until is not None
    for release in RELEASES:
        affected = RELEASES.index(issue.since) <= RELEASES.index(release) < RELEASES.index(issue.until)
        assert (found(f"vllm=={release}") is issue) == affected  # another issue may look the same in other releases
    for target in ("builtin", "vllm", "path:../vllm", f"vllm=={issue.since}+stale-accept", "path:../vllm+stale-accept"):
        assert found(target) is None, "nothing is known of it"
    for odd in ("vllm==", "vllm==foo", "vllm==0.27.*", f"vllm=={issue.until}rc1", ""):
        assert found(odd) is None


def test_a_finding_that_only_resembles_a_known_issue_is_none() -> None:
    repro = read_repro(ROOT / "corpus" / "v2-accepted-race-temporal.json")
    (operation,) = repro.case.program
    first = replace_struct(operation, runner="V1")
    other_form = replace_struct(repro.case, program=(first,))
    assert kernel_issue("vllm==0.25.0", repro.signature, other_form) is None
    stray = replace_struct(repro.signature, violation="stray-write")
    assert kernel_issue("vllm==0.25.0", stray, repro.case) is None


@pytest.mark.parametrize(
    ("name", "operation", "oracle", "violation"),
    [
        ("ds-window-as-sd", "postprocess", "memory", "wrong-bytes"),
        ("ds-bias-refused", "preprocess", "exception", "AssertionError"),
        ("shift-within-block-ds", "postprocess", "race", "between-warps"),
    ],
)
def test_faults_in_windows_of_ds_layout_have_names(name: str, operation: str, oracle: str, violation: str) -> None:
    repro = read_repro(ROOT / "corpus" / "v2-accepted-race-conv-ds.json")
    (launch,) = repro.case.program
    case = replace_struct(repro.case, program=(replace_struct(launch, runner="V1"),))
    signature = Signature(operation, oracle, violation, "conv", "DS")
    (issue,) = (one for one in KERNEL_ISSUES if one.name == name)
    assert kernel_issue(f"vllm=={issue.since}", signature, case) is issue
    assert issue.until is not None
    assert kernel_issue(f"vllm=={issue.until}", signature, case) is None


def test_a_race_on_an_accepted_count_is_known_whatever_was_accepted() -> None:
    repro = read_repro(ROOT / "corpus" / "v2-accepted-race-temporal.json")
    (launch,) = repro.case.program
    rows = tuple(replace_struct(row, accepted=1) for row in launch.rows)
    case = replace_struct(repro.case, program=(replace_struct(launch, rows=rows),))
    race = Signature("postprocess", "race", "between-programs", "accepted", "-")
    found = kernel_issue("vllm==0.25.0", race, case)
    assert found is not None
    assert found.name == "accepted-count-race"
    assert kernel_issue("vllm==0.25.0", repro.signature, case) is None


class Cutter:
    """A scheduler that cuts every chunk to three tokens."""

    def _mamba_block_aligned_split(self, request: object, tokens: int, *hits: int) -> int:
        return 3


def test_no_fix_of_an_engine_undoes_a_planted_fault() -> None:
    engine = SimpleNamespace(scheduler=Cutter(), config=SimpleNamespace(block_size=8))
    Controls(faults=("chunk-off-grid",), fixes=("checkpoint-mid-block",)).change_engine(engine)
    request = SimpleNamespace(num_computed_tokens=3, num_prompt_tokens=20, num_tokens=20)
    assert engine.scheduler._mamba_block_aligned_split(request, 17) == 17, "as the fault says, off the grid"


@pytest.mark.parametrize(("name", "path"), SHOWN, ids=[path.stem for _, path in SHOWN])
def test_what_looks_like_an_issue_that_the_base_release_is_without_is_a_regression(name: str, path: Path) -> None:
    repro = read_repro(path)
    assert isinstance(repro, Repro)
    (issue,) = (one for one in KERNEL_ISSUES if one.name == name)
    assert issue.until is not None
    for release in RELEASES:
        fixed = RELEASES.index(release) >= RELEASES.index(issue.until)
        assert (kernel_regression(release, repro.signature, repro.case) is issue) == fixed


def test_older_releases_than_the_first_that_showed_an_issue_may_have_it() -> None:
    late, fixed = issues_of("drained-queue+zero-draft-row")
    assert [late.is_fixed_in(release) for release in ("0.25.0", "0.33.0", "0.99.0")] == [False] * 3
    assert [fixed.is_fixed_in(release) for release in ("0.25.0", "0.31.0", "0.32.0")] == [False, False, True]


def test_issues_of_one_fault_have_one_report() -> None:
    by_name = {issue.name: issue for issue in KERNEL_ISSUES}
    joined = [issue for issue in KERNEL_ISSUES if issue.of is not None]
    assert [issue.name for issue in joined] == ["shift-within-block-ds"]
    for issue in joined:
        assert issue.fault == issue.of
        assert by_name[issue.fault].report == issue.report
        assert by_name[issue.fault].fault == issue.fault

"""Edits of a checkout: what is lost, and known issues that come back, are told and never muted."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.generators.sequences.configurations import Pins
from harness.issues.registry import DEFAULT_FIXES
from harness.kernels.targets.vllm.base_release import BaseRelease
from harness.kernels.targets.vllm.known_releases import RELEASES
from harness.kernels.targets.vllm.sources import HYBRID, SCHEDULER, WORKER
from harness.sequences.controls import Controls
from harness.sequences.recipe import SequenceRecipe
from harness.sequences.subject import StepSequences
from harness.subject.entry import Tally
from harness.subject.subject import Ended
from tests.releases import edit, editable_whole, rename, sources

NEWEST = RELEASES[-1]
Command = Callable[..., subprocess.CompletedProcess[str]]
RUN = ("run", "--ops", "sequences", "--cases", 48, "--no-shrink", "--json")
DECODES = "            is_decode = (\n                ~is_prefilling_np\n"
REGRESSION = "REGRESSION of zero-draft-row"


@pytest.fixture
def no_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkout of `subject` is nowhere."""
    monkeypatch.setattr("harness.sequences.subject.sources_of", lambda target: {})


def subject(base: str | None, fixes: tuple[str, ...] = DEFAULT_FIXES) -> StepSequences:
    """Sequences of a checkout that was made from a release."""
    return StepSequences(
        target="path:../vllm",
        recipe=SequenceRecipe(0, Pins(runner="V1")),
        controls=Controls(fixes=fixes),
        base=None if base is None else BaseRelease(base),
    )


@pytest.mark.usefixtures("no_sources")
@pytest.mark.parametrize(("base", "acts"), [("0.31.0", True), ("0.32.0", False), (None, True)])
def test_a_fix_acts_only_where_the_base_release_may_have_its_issue(base: str | None, acts: bool) -> None:
    made = subject(base)
    ended = Ended(1, 1.0, 1.0, 0, None, False)
    assert ("zero-draft-row" in made.summary(Tally(), [], ended).fixes) is acts
    assert "left-out-row" in made.summary(Tally(), [], ended).fixes
    assert made.identity()["controls"] == subject(None).identity()["controls"], "that is what was asked for"
    assert made.identity().get("base") == base, "another base would be another campaign"


def test_an_issue_that_the_base_release_does_not_have_is_a_regression() -> None:
    key = subject("0.33.0").key_of("sequence/meaning/wrong-state-read/mamba/-", "zero-draft-row")
    assert str(key).endswith(f" [{REGRESSION}]")
    assert str(subject("0.31.0").key_of("a", "zero-draft-row")) == "a [zero-draft-row]"
    assert str(subject("0.33.0").key_of("a", "left-out-row")) == "a [left-out-row]"
    assert str(subject("0.33.0").key_of("a", None)) == "a"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The newest release with all its files, to edit."""
    return editable_whole(NEWEST, tmp_path / "checkout")


def run(harness: Command, checkout: Path, *options: object) -> tuple[int, dict[str, object], str]:
    """The exit status, the object and the last line of a run on a checkout."""
    done = harness(*RUN, "-t", f"path:{checkout}", *options)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


@pytest.mark.release
@pytest.mark.long
def test_a_known_issue_that_is_put_back_is_a_finding(harness: Command, checkout: Path) -> None:
    edit(checkout, HYBRID, DECODES, f"{DECODES}                & (num_draft_tokens_per_req > 0)\n")
    status, found, errors = run(harness, checkout, "--pins", "runner=V2")
    assert status == 1, errors
    findings = found["findings"]
    assert isinstance(findings, list)
    assert [(one["issue"], one["regression"]) for one in findings] == [("zero-draft-row", True)]
    assert found["base"] == {"version": NEWEST, "changed": [HYBRID], "compared": ["vllm/"]}
    assert found["edited"] == {"lines": 1, "ran": 1, "missed": [], "reason": None}
    (ran,) = findings[0]["edits"]
    assert ran["file"] == HYBRID
    replayed = harness("replay", findings[0]["repro"], "-t", f"path:{checkout}")
    assert f"edited lines that this finding ran: {HYBRID}" in replayed.stdout
    rules = found["changed_rules"]
    assert isinstance(rules, list)
    assert rules[0] == (
        f"MambaHybridModelState.prepare_attn ({HYBRID}) has other words than in vllm {NEWEST} (zero_drafts): "
        f"the model plays the rule of vllm {NEWEST}"
    )
    done = harness(*RUN[:-1], "-t", f"path:{checkout}", "--pins", "runner=V2")
    assert done.stdout.splitlines()[-1] == f"1 finding: {REGRESSION}"
    assert f"path:{checkout} (vllm {NEWEST} with 1 file changed): step sequences" in done.stdout


@pytest.mark.release
@pytest.mark.long
def test_what_gated_delta_nets_read_is_compared_on_its_own(harness: Command, checkout: Path) -> None:
    edit(checkout, HYBRID, f"{DECODES}                & ", "            is_decode = (\n                ")
    status, found, errors = run(harness, checkout, "--pins", "runner=V2")
    assert status == 1, errors
    findings = found["findings"]
    assert isinstance(findings, list)
    assert [one["signature"] for one in findings] == ["sequence/meaning/host-code-differs/drafts of gated delta nets/-"]


@pytest.mark.release
@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "place", "lost"),
    [
        ("preprocess_mamba", WORKER, "sequences of V1"),
        ("preprocess_state", HYBRID, "sequences of V2"),
        ("_mamba_block_aligned_split", SCHEDULER, "sequences that need the fix of split-block-size"),
    ],
)
def test_a_renamed_function_is_told_by_name(harness: Command, checkout: Path, name: str, place: str, lost: str) -> None:
    rename(checkout, name, f"renamed_{name}", "vllm/v1")
    status, found, errors = run(harness, checkout)
    assert status == 3, errors
    assert found["findings"] == []
    assert found["harness_failures"] == 0
    lines = found["lost"]
    assert isinstance(lines, list)
    assert lines[0].startswith(f"{lost}: looked for ")
    assert f"{name} in {place}, as in vllm {NEWEST}" in lines[0]
    assert isinstance(found["steps"], int)
    assert found["steps"] > 100, "the others went on"


@pytest.mark.release
@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "place", "lost"),
    [
        (
            "new_step_starts",
            "SingleTypeKVCacheManager.new_step_starts in vllm/v1/core/single_type_kv_cache_manager.py",
            ["sequences that need the fix of copy-of-fresh-block"],
        ),
        (
            "_compute_common_metadata",
            "BaseMambaAttentionMetadataBuilder._compute_common_metadata in vllm/v1/attention/backends/mamba_attn.py",
            ["rules of V1 (padded_tails)", "rules of V2 (padded_tails)"],
        ),
    ],
)
def test_what_a_fix_or_a_rule_rests_on_is_lost_whatever_is_drawn(
    harness: Command, checkout: Path, name: str, place: str, lost: list[str]
) -> None:
    rename(checkout, name, f"renamed_{name}")
    done = harness(*RUN, "-t", f"path:{checkout}", "--cases", 1)
    found = json.loads(done.stdout)
    assert done.returncode == 3, done.stderr
    assert found["lost"] == [f"{one}: looked for {place}, as in vllm {NEWEST}" for one in lost]


SAMPLING = "vllm/sampling_params.py"
CHECKS = "    def _verify_args(self) -> None:\n"


@pytest.mark.release
@pytest.mark.long
def test_an_edit_anywhere_in_the_package_is_seen(harness: Command, checkout: Path) -> None:
    edit(checkout, SAMPLING, CHECKS, f"{CHECKS}        number = 1\n")
    done = harness(*RUN, "-t", f"path:{checkout}", "--cases", 4)
    found = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert found["base"] == {"version": NEWEST, "changed": [SAMPLING], "compared": ["vllm/"]}
    assert found["edited"] == {"lines": 1, "ran": 1, "missed": [], "reason": None}


@pytest.mark.release
@pytest.mark.long
def test_a_far_release_plays_no_rules(harness: Command, checkout: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    (cache / "releases").mkdir(parents=True)
    (cache / "releases" / "vllm-0.28.0").symlink_to(sources("0.28.0"))
    offline = {"HARNESS_CACHE_DIR": str(cache), "HARNESS_OFFLINE": "1"}
    done = harness(*RUN, "-t", f"path:{checkout}", **offline)
    found = json.loads(done.stdout)
    assert (found["base"], found["findings"]) == (None, [])
    assert done.returncode == 3, done.stderr
    assert any("no release was at hand to compare with" in line for line in found["missing"])
    assert "vllm 0.28.0, the nearest that is here, is far" in done.stderr


@pytest.mark.release
@pytest.mark.long
def test_a_checkout_without_an_edit_has_no_finding(harness: Command, checkout: Path) -> None:
    status, found, errors = run(harness, checkout)
    assert status == 0, errors
    assert (found["findings"], found["lost"], found["changed_rules"]) == ([], [], [])
    assert "zero-draft-row" not in str(found["fixes"])

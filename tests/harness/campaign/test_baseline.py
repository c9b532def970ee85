"""Baselines: a run says what an earlier campaign had not found, and what is gone only where it would have shown."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from harness.campaign.expectations import expectations
from harness.campaign.history import DamagedHistory, read_history
from harness.campaign.past import NoPast, read_past
from harness.campaign.settings import Settings
from harness.campaign.situation import Journaled, Situation, drawn_as, journaled
from harness.subject.entry import Entry
from harness.subject.standing import Absent, StillThere

if TYPE_CHECKING:
    from tests.harness.campaign.conftest import Kit, NumberKit, Ran

Run = Callable[..., "Ran"]
Make = Callable[..., Settings]


def since(folder: Path) -> dict[str, Any]:
    return {"expectations": expectations(None, folder)}


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.kernel_cases_too
def test_the_findings_of_any_subject_are_read_from_its_folder(kit: Kit, whole: Ran) -> None:
    before = files(whole.out)
    past = read_past(whole.out)
    assert files(whole.out) == before, "it is only read"
    found = {one.signature: one for one in past.findings}
    assert [one.file is not None for one in past.findings] == [True] * len(found)
    assert (past.target, past.notices) == (kit.wrong().target, [])
    assert set(past.journals) == {kit.name}
    for signature, _, cases, _ in whole.found:
        one = found[signature.partition(" ")[0]]
        assert one.situation is not None
        passed = past.journals[kit.name].passed(one.situation)
        assert one.situation.one_in == -(-(passed + cases) // cases)
        assert one.situation.drawn_as == past.journals[kit.name].drawn_as


def test_what_an_earlier_campaign_has_does_not_count(
    numbers: NumberKit, run: Run, settings: Make, tmp_path: Path
) -> None:
    first = run(numbers.wrong(), settings(out=tmp_path / "first"))
    again = run(numbers.wrong(), settings(out=tmp_path / "again", **since(first.out)))
    baseline = again.summary.standing.baseline
    assert (baseline.new, [one.finding for one in baseline.still], baseline.gone) == ([], [0, 1], [])
    assert (first.summary.exit_status, again.summary.exit_status) == (1, 0)


def test_what_an_earlier_campaign_has_not_is_new(numbers: NumberKit, run: Run, settings: Make, tmp_path: Path) -> None:
    nothing = run(numbers.right(), settings(out=tmp_path / "nothing"))
    found = run(numbers.wrong(), settings(out=tmp_path / "found", **since(nothing.out)))
    assert found.summary.standing.baseline.new == [0, 1]
    assert found.summary.exit_status == 1


def test_gone_is_said_where_enough_cases_were_judged(
    numbers: NumberKit, run: Run, settings: Make, tmp_path: Path
) -> None:
    found = run(numbers.wrong(), settings(out=tmp_path / "found"))
    situations = {one.signature: one.situation for one in read_past(found.out).findings}
    enough = max(one.enough for one in situations.values() if one is not None)
    long = run(numbers.right(), settings(out=tmp_path / "long", cases=enough, **since(found.out)))
    baseline = long.summary.standing.baseline
    assert [(one.name, one.cases) for one in baseline.gone] == [("unlucky", enough), ("unlucky-too", enough)]
    assert long.summary.exit_status == 0
    short = run(numbers.right(), settings(out=tmp_path / "short", cases=16, **since(found.out)))
    baseline = short.summary.standing.baseline
    assert baseline.gone == []
    needed = situations["unlucky"]
    assert needed is not None
    why = f"16 of its cases passed, and {needed.enough} are needed"
    assert baseline.not_looked_at[0] == Absent(name="unlucky", cases=16, why_unknown=why)


def test_an_interrupted_campaign_says_of_nothing_that_it_is_gone(
    numbers: NumberKit, run: Run, settings: Make, tmp_path: Path
) -> None:
    found = run(numbers.wrong(), settings(out=tmp_path / "found"))
    long = run(numbers.right(), settings(out=tmp_path / "long", cases=4000))
    expected, subject = since(found.out)["expectations"], numbers.right()
    journal = journaled(long.out, type(subject))
    assert len(expected.standing(subject, [], journal, complete=True).baseline.gone) == 2
    baseline = expected.standing(subject, [], journal, complete=False).baseline
    assert [one.why_unknown for one in baseline.not_looked_at] == ["the campaign was interrupted"] * 2


def test_the_history_follows_a_chain_of_campaigns(
    numbers: NumberKit, run: Run, settings: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = iter(f"2026-06-{day}T00:00:00+00:00" for day in (11, 12, 13))

    def ran(subject: Any, name: str, **more: Any) -> Any:
        today = next(days)
        monkeypatch.setattr("harness.campaign.campaign.now", lambda: today)
        return run(subject, settings(out=tmp_path / name, **more))

    first = ran(numbers.wrong(), "first")
    second = ran(numbers.right(), "second", **since(first.out))
    third = ran(numbers.wrong(), "third", **since(second.out))
    rows = read_history(third.out / "campaign" / "history.json")
    unlucky = rows["number", "unlucky", None]
    assert (unlucky.first.when, unlucky.last.when) == ("2026-06-11T00:00:00+00:00", "2026-06-13T00:00:00+00:00")
    gone = read_history(second.out / "campaign" / "history.json")["number", "unlucky", None]
    assert gone.last.when == "2026-06-11T00:00:00+00:00", "it was not seen in the second one"
    assert third.summary.standing.baseline.new == [0, 1], "the second one does not have it"
    with_first = expectations(None, first.out)
    assert with_first is not None
    again = run(numbers.wrong(), settings(out=tmp_path / "again", expectations=with_first))
    still = StillThere(finding=0, since="2026-06-11T00:00:00+00:00", first_target="builtin")
    assert again.summary.standing.baseline.still[0] == still


def test_a_resumed_campaign_keeps_its_history(
    numbers: NumberKit, run: Run, settings: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.campaign.campaign.now", lambda: "2026-06-11")
    run(numbers.wrong(), settings(out=tmp_path / "one"))
    monkeypatch.setattr("harness.campaign.campaign.now", lambda: "2026-06-12")
    run(numbers.wrong(), settings(out=tmp_path / "one", cases=48, resume=True))
    row = read_history(tmp_path / "one" / "campaign" / "history.json")["number", "unlucky", None]
    assert (row.first.when, row.last.when) == ("2026-06-11", "2026-06-12")


def test_a_folder_may_be_moved(numbers: NumberKit, run: Run, settings: Make, tmp_path: Path) -> None:
    found = run(numbers.wrong(), settings(out=tmp_path / "found", shrink=True))
    before = [(one.key, one.situation) for one in read_past(found.out).findings]
    shutil.move(found.out, tmp_path / "moved")
    past = read_past(tmp_path / "moved")
    assert [(one.key, one.situation) for one in past.findings] == before
    assert all(one.file is not None and one.file.is_file() for one in past.findings)


def test_a_campaign_that_was_killed_is_read_with_a_notice(
    numbers: NumberKit, run: Run, settings: Make, tmp_path: Path
) -> None:
    found = run(numbers.wrong(), settings(out=tmp_path / "found"))
    file = found.out / "campaign" / "stats.json"
    stats = json.loads(file.read_bytes())
    stats["campaigns"]["number"].update(exit_status=None, phase="judging")
    file.write_text(json.dumps(stats))
    after = run(numbers.wrong(), settings(out=tmp_path / "after", **since(found.out)))
    assert f"'{found.out}': the campaign of numbers did not reach its end" in after.notices


def test_without_its_journal_or_files_a_finding_is_known_and_never_gone(
    numbers: NumberKit, run: Run, settings: Make, tmp_path: Path
) -> None:
    found = run(numbers.wrong(), settings(out=tmp_path / "found"))
    (found.out / "numbers.journal").unlink()
    after = run(numbers.right(), settings(out=tmp_path / "after", cases=4000, **since(found.out)))
    whys = [one.why_unknown for one in after.summary.standing.baseline.not_looked_at]
    assert whys == ["the earlier campaign does not say in which of its cases it shows"] * 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"there is no \S+stats.json: is '\S+' the folder of a campaign"),
        (b"", "is damaged"),
        (b'{"campaigns": {"number": {}}}', "is damaged"),
        (b'{"harness_stats": 1, "campaigns": {}}', "names no campaign"),
    ],
)
def test_what_is_no_campaign_is_refused_in_one_line(tmp_path: Path, text: bytes | None, message: str) -> None:
    if text is not None:
        (tmp_path / "campaign").mkdir()
        (tmp_path / "campaign" / "stats.json").write_bytes(text)
    with pytest.raises(NoPast, match=message):
        read_past(tmp_path)


@pytest.mark.parametrize("text", [b"{", b'{"harness_history": 2, "findings": []}'])
def test_a_damaged_history_is_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "history.json").write_bytes(text)
    with pytest.raises(DamagedHistory):
        read_history(tmp_path / "history.json")


def test_a_situation_is_all_of_its_regimes_together_in_cases_that_judged_its_operation() -> None:
    def judged(index: int, reached: str, **counters: int) -> Entry:
        named = {f"judged {name}": count for name, count in counters.items()}
        return Entry(index, counters=named, reached=reached)

    entries = [
        judged(0, "3", copy=1),
        judged(1, "7", copy=1),
        judged(2, "2", copy=1),
        judged(3, "3", other=1),
        Entry(4, skipped="lacks", reached="3"),
        Entry(5, counters={"judged copy": 1}, reached="3", signature="another"),
    ]
    journal = Journaled("0" * 8, entries, ("a", "b", "c"))
    both = Situation(operation="copy", regimes=("a", "b"), one_in=1, drawn_as="0" * 8)
    assert journal.passed(both) == 2
    assert journal.passed(msgspec.structs.replace(both, operation=None)) == 3
    assert journal.passed(msgspec.structs.replace(both, regimes=())) == 3
    assert journal.why_unknown(both) == (2, "2 of its cases passed, and 10 are needed")
    elsewhere = msgspec.structs.replace(both, drawn_as="1" * 8)
    assert journal.why_unknown(elsewhere) == (0, "cases are drawn in another way here")
    unheard = msgspec.structs.replace(both, regimes=("d",))
    assert journal.why_unknown(unheard) == (0, "cases of this kind are in none of its regimes")


def test_targets_and_seeds_draw_alike_and_other_settings_do_not() -> None:
    head = {"target": "builtin", "recipe": {"seed": 1, "domains": ["total"]}, "generator": 8}
    other = {
        "target": "vllm",
        "sources": "x",
        "shard": "1/2",
        "recipe": {"domains": ["total"], "seed": 2},
        "generator": 8,
    }
    assert drawn_as(head) == drawn_as(other)
    on_bytes = {**head, "kernels": {"target": "builtin", "executor": "native"}}
    assert drawn_as(on_bytes) == drawn_as({**on_bytes, "kernels": {"target": "vllm", "executor": "native"}})
    assert drawn_as(on_bytes) != drawn_as({**on_bytes, "kernels": {"target": "builtin", "executor": "cuda"}})
    assert drawn_as(head) != drawn_as({**head, "generator": 9})
    assert drawn_as(head) != drawn_as({**head, "recipe": {"seed": 1, "domains": ["reachable"]}})

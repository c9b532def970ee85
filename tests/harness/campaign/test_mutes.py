"""Mutes: files of them are read whole or refused in one line, and what they cover is reported and does not count."""

from __future__ import annotations

import datetime
import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.campaign.expectations import expectations
from harness.campaign.mute import Mute
from harness.campaign.mutes import InvalidMutes, add_mute, read_mutes
from harness.campaign.past import read_past
from harness.campaign.settings import Settings
from harness.check.outcome import CodePlace, Evidence, Signature
from harness.repro import Origin, Repro
from harness.subject.standing import Muted, NeedlessMute
from harness.subject.subject import Key

if TYPE_CHECKING:
    from tests.harness.campaign.conftest import NumberKit, Ran

Run = Callable[..., "Ran"]
Make = Callable[..., Settings]
TODAY = datetime.date(2026, 6, 15)
RACE = "postprocess/race/between-programs/accepted/-"


def file_of(tmp_path: Path, *entries: str) -> Path:
    file = tmp_path / "known.toml"
    file.write_text("# what we know\n" + "".join(f"[[finding]]\n{entry}\n" for entry in entries))
    return file


def entry(**changes: str) -> str:
    """Keys and values in TOML; an empty value leaves a key out."""
    given = {"signature": f'"{RACE}"', "reason": '"known"', **changes}
    return "\n".join(f"{name} = {value}" for name, value in given.items() if value)


def test_a_file_is_read_in_order(tmp_path: Path) -> None:
    narrow = entry(issue='"accepted-count-race"', line='"vllm/v1/worker/mamba_utils.py:157"', sha256='"815cddc7"')
    full = entry(
        issue='"accepted-count-race"',
        link='"https://example.org/1"',
        expires="2026-12-31",
        regimes='["one-request"]',
        one_in="4",
        drawn_as='"0e5b1777"',
    )
    first, second, third = read_mutes(
        file_of(tmp_path, full, narrow, entry(signature="", issue='"left-out-row+cut-padding"'))
    )
    assert first.expires == datetime.date(2026, 12, 31)
    assert first.name == f"{RACE} [accepted-count-race]"
    assert second.name == f"{first.name} at vllm/v1/worker/mamba_utils.py:157 of case 815cddc7"
    assert first.situation is not None
    assert (first.situation.operation, first.situation.regimes, first.situation.enough) == (
        "postprocess",
        ("one-request",),
        40,
    )
    assert (third.name, third.situation) == ("issue left-out-row+cut-padding", None)


def test_an_empty_file_mutes_nothing(tmp_path: Path) -> None:
    assert read_mutes(file_of(tmp_path)) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reason": ""}, "missing required field `reason`"),
        ({"reason": '" "'}, "reason"),
        ({"signature": ""}, "it needs a signature or an issue"),
        ({"reson": '"x"'}, "unknown key 'reson'; did you mean 'reason'?"),
        ({"signature": "7"}, "Expected `str`, got `int` - at `$.signature`"),
        ({"expires": '"tomorrow"'}, "Invalid RFC3339 encoded date - at `$.expires`"),
        ({"expires": "7"}, "Expected `date`, got `int` - at `$.expires`"),
        (
            {"issue": '"accepted-count-rice"'},
            "unknown issue 'accepted-count-rice'; did you mean 'accepted-count-race'?",
        ),
        ({"issue": '"left-out-row+nothing"'}, "unknown issue 'nothing'"),
        ({"regimes": '["one-reqest"]'}, "unknown regime 'one-reqest'; did you mean 'one-request'?"),
        ({"regimes": '["one-request", "one-request"]'}, "the regime one-request is there twice"),
        ({"line": '"157"'}, "at `$.line`"),
        ({"sha256": '"815CDD"'}, "at `$.sha256`"),
        ({"one_in": "0"}, "at `$.one_in`"),
        ({"line": '"a.py:7"', "one_in": "3"}, "one_in is about all that has the signature, not with line"),
        ({"sha256": '"815cddc7"', "regimes": "[]"}, "regimes is about all that has the signature, not with sha256"),
    ],
)
def test_what_is_wrong_with_an_entry_is_one_line_that_says_where(
    tmp_path: Path, changes: dict[str, str], message: str
) -> None:
    file = file_of(tmp_path, entry(signature='"a/b/c/d/e"'), entry(**changes))
    with pytest.raises(InvalidMutes, match=re.escape(message)) as refused:
        read_mutes(file)
    assert str(refused.value).startswith(f"{file}:5: entry 2: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[finding]\n", "no TOML: .*line 1"),
        ("[[findings]]\n", "unknown key 'findings'; did you mean 'finding'"),
        ("finding = 7\n", r"each entry is a \[\[finding\]\]"),
        ("finding = [7]\n", "entry 1: Expected `object`, got `int`"),
        ('finding = [{reason = "x"}]\n', "entry 1: it needs a signature or an issue"),
        ("\udcff", "no TOML"),
        (f"one_in = {'9' * 5000}\n", "no TOML: Exceeds the limit"),
    ],
)
def test_what_is_no_list_of_entries_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "known.toml"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InvalidMutes, match=message):
        read_mutes(file)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidMutes, match=r"known\.toml: No such file"):
        read_mutes(tmp_path / "known.toml")


def test_two_entries_for_the_same_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidMutes, match=r":5: entry 2 covers the same as entry 1: postprocess/race"):
        read_mutes(file_of(tmp_path, entry(), entry(reason='"other"')))
    assert len(read_mutes(file_of(tmp_path, entry(), entry(line='"a.py:1"')))) == 2


def test_an_entry_that_was_added_is_read_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "known.toml"
    hostile = 'a "reason" with \\ and \x7f and ü'
    first = Mute(signature=RACE, reason=hostile, expires=TODAY, regimes=["one-request"], one_in=4)
    second = Mute(issue="accepted-count-race", reason="known")
    add_mute(file, first)
    add_mute(file, second)
    assert read_mutes(file) == [first, second]
    before = file.read_bytes()
    with pytest.raises(InvalidMutes, match="entry 1 covers that already"):
        add_mute(file, Mute(signature=RACE, reason="again"))
    assert file.read_bytes() == before


def test_what_people_wrote_in_the_file_stays(tmp_path: Path) -> None:
    file = tmp_path / "known.toml"
    file.write_text("# only a remark")
    add_mute(file, Mute(signature=RACE, reason="known"))
    assert file.read_text().startswith("# only a remark\n\n[[finding]]\n")
    assert len(read_mutes(file)) == 1


@pytest.mark.parametrize(
    ("keys", "operation"),
    [
        ({"signature": RACE, "regimes": ["one-request"]}, "postprocess"),
        ({"signature": RACE, "regimes": []}, "postprocess"),
        ({"signature": RACE, "drawn_as": "0e5b1777"}, None),
        ({"issue": "accepted-count-race", "regimes": ["one-request"]}, None),
        ({"signature": RACE}, "no situation"),
        ({"issue": "accepted-count-race", "regimes": []}, "no situation"),
        ({"signature": RACE, "one_in": 3}, "no situation"),
    ],
)
def test_an_entry_says_in_which_cases_its_finding_shows(keys: dict[str, Any], operation: str | None) -> None:
    situation = Mute(**keys, reason="known").situation
    assert (situation.operation if situation is not None else "no situation") == operation


CASE = b'{"a": 1}'


def repro(*places: CodePlace) -> Repro:
    evidence = Evidence("wrong", places=places)
    origin = Origin(target="builtin", executor="native", harness_version="0", generator_version=1)
    case: Any = None
    return Repro(signature=Signature("o", "v", "w", "x", "-"), evidence=evidence, origin=origin, case=case)


@pytest.mark.parametrize(
    ("mute", "key", "covered"),
    [
        ({"signature": RACE}, Key(RACE), True),
        ({"signature": RACE}, Key(RACE, "accepted-count-race"), True),
        ({"signature": RACE}, Key(RACE, "accepted-count-race", True), True),
        ({"signature": RACE}, Key("other"), False),
        ({"issue": "accepted-count-race"}, Key("other", "accepted-count-race"), True),
        ({"issue": "accepted-count-race"}, Key("other", "accepted-count-race", True), False),
        ({"issue": "accepted-count-race"}, Key("other"), False),
        ({"issue": "keep-accepted"}, Key("other", "left-out-row"), True),
        ({"issue": "left-out-row"}, Key("other", "left-out-row+cut-padding"), False),
        ({"signature": RACE, "issue": "left-out-row"}, Key(RACE), False),
        ({"signature": RACE, "line": "a.py:7"}, Key(RACE), True),
        ({"signature": RACE, "line": "a.py:8"}, Key(RACE), False),
        ({"signature": RACE, "sha256": "$"}, Key(RACE), True),
        ({"signature": RACE, "sha256": "00000000"}, Key(RACE), False),
    ],
)
def test_what_a_mute_covers(mute: dict[str, str], key: Key, covered: bool) -> None:
    digest = hashlib.sha256(CASE).hexdigest()
    given: dict[str, Any] = {name: digest[:12] if value == "$" else value for name, value in mute.items()}
    found = Mute(**given, reason="known").covers(key, repro(CodePlace("a.py", 7, "f", "store")), CASE)
    assert found is covered


@pytest.mark.parametrize(("day", "holds"), [(14, False), (15, True), (16, True)])
def test_a_mute_holds_through_its_last_day(day: int, holds: bool) -> None:
    mute = Mute(signature=RACE, reason="known", expires=datetime.date(2026, 6, day))
    assert mute.expired(TODAY) is not holds


# In campaigns.


def knowing(tmp_path: Path, *entries: str) -> dict[str, Any]:
    return {"expectations": expectations(file_of(tmp_path, *entries), None, TODAY)}


def test_a_muted_finding_is_reported_and_does_not_count(
    numbers: NumberKit, run: Run, settings: Make, tmp_path: Path
) -> None:
    unlucky, too = entry(signature='"unlucky"', expires="2026-06-30"), entry(signature='"unlucky-too"')
    ran = run(numbers.wrong(), settings(**knowing(tmp_path, unlucky, too)))
    assert [one.signature for one in ran.summary.findings] == ["unlucky", "unlucky-too"]
    assert ran.summary.exit_status == 0
    muted = [
        Muted(finding=0, mute="unlucky", reason="known", until="2026-06-30"),
        Muted(finding=1, mute="unlucky-too", reason="known"),
    ]
    assert ran.summary.standing.muted == muted
    names = ["unlucky", "unlucky-too"]
    assert next(line.text for line in ran.summary.standing.lines(names)) == "unlucky: known, until 2026-06-30"


def test_another_finding_still_counts(numbers: NumberKit, run: Run, settings: Make, tmp_path: Path) -> None:
    ran = run(numbers.wrong(), settings(**knowing(tmp_path, entry(signature='"unlucky"'))))
    assert ran.summary.exit_status == 1
    assert [ran.summary.standing.counts(number) for number in (0, 1)] == [False, True]


def test_an_expired_mute_fails_a_run_whether_or_not_its_finding_occurs(
    numbers: NumberKit, run: Run, settings: Make, tmp_path: Path
) -> None:
    expired = knowing(tmp_path, entry(signature='"unlucky"', expires="2026-06-14"))
    ran = run(numbers.right(), settings(**expired))
    assert ran.summary.findings == []
    assert ran.summary.exit_status == 1
    assert ran.summary.standing.problems == ["mute of unlucky expired on 2026-06-14"]


def test_a_mute_whose_finding_no_longer_occurs_fails_a_run_that_was_long_enough(
    numbers: NumberKit, run: Run, settings: Make, tmp_path: Path
) -> None:
    drawn = run(numbers.wrong(), settings(out=tmp_path / "before"))
    one = next(one for one in read_past(drawn.out).findings if one.signature == "unlucky")
    assert one.situation is not None
    count, others = (found.cases for found in drawn.summary.findings)
    assert one.situation.one_in == -(-(40 - others) // count)
    written = entry(signature='"unlucky"', one_in=str(one.situation.one_in), drawn_as=f'"{one.situation.drawn_as}"')
    short = run(numbers.right(), settings(out=tmp_path / "short", cases=39, **knowing(tmp_path, written)))
    assert (short.summary.exit_status, short.summary.standing.needless) == (0, [])
    enough = one.situation.enough
    long = run(numbers.right(), settings(out=tmp_path / "long", cases=enough, **knowing(tmp_path, written)))
    assert long.summary.standing.needless == [NeedlessMute(mute="unlucky", cases=enough, one_in=one.situation.one_in)]
    assert long.summary.exit_status == 1
    (problem,) = long.summary.standing.problems
    assert problem.startswith("unlucky no longer occurs: remove its entry")


def test_without_a_situation_nothing_is_said(numbers: NumberKit, run: Run, settings: Make, tmp_path: Path) -> None:
    ran = run(numbers.right(), settings(cases=4000, **knowing(tmp_path, entry(signature='"unlucky"'))))
    assert (ran.summary.exit_status, ran.summary.standing.needless) == (0, [])


def test_cases_that_are_drawn_in_another_way_say_nothing(
    numbers: NumberKit, run: Run, settings: Make, tmp_path: Path
) -> None:
    written = entry(signature='"unlucky"', one_in="1", drawn_as='"00000000"')
    ran = run(numbers.right(), settings(**knowing(tmp_path, written)))
    assert ran.summary.standing.needless == []


def test_fail_fast_does_not_stop_at_a_muted_finding(
    numbers: NumberKit, run: Run, settings: Make, tmp_path: Path
) -> None:
    both = knowing(tmp_path, entry(signature='"unlucky"'), entry(signature='"unlucky-too"'))
    assert run(numbers.wrong(), settings(fail_fast=True, out=tmp_path / "a", **both)).judged == list(range(40))
    one = knowing(tmp_path, entry(signature='"unlucky"'))
    stopped = run(numbers.wrong(), settings(cases=4000, fail_fast=True, out=tmp_path / "b", **one))
    assert len(stopped.judged) < 4000
    assert "unlucky-too" in [found.signature for found in stopped.summary.findings]

"""The HTML report: it says what the summary and the files say, needs nothing else, and no text becomes markup."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from harness.end_to_end.summary import EngineSummary
from harness.kernel_cases.summary import CaseSummary
from harness.refusal import Refusal
from harness.reports.written.html import html
from harness.reports.written.page import HEADING, SAID, SHOWN_OTHERWISE, heading_of, page_of
from harness.reports.written.result import broken_off, result_of
from harness.repro import read_repro
from harness.sequences.summary import SequenceSummary
from harness.subject.faults import Fault
from harness.subject.standing import Muted, Standing
from tests.reports.pages import read, result, saved
from tests.summaries import sequence_finding, sequence_summary

ROOT = Path(__file__).resolve().parents[2]
SMALL = ROOT / "corpus" / "ds-window-as-sd.json"
HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(1)> ]]> & \"' \x1b[31m\x00\ud800\r\nnext {{ 7*7 }}"
)


def test_a_fault_is_shown_with_its_evidence(tmp_path: Path) -> None:
    file = saved(read_repro(SMALL), tmp_path)
    page = read(html([result([file, None])]))
    faults = [element for element in page.all("details") if element.attributes.get("class") == "fault"]
    assert len(faults) == 2
    first, second = faults
    for text in ("summary of that", "vllm/that.py:157", "as if that", "2 cases", "detail of that", "written by that"):
        assert text in first.text
    assert f"harness replay {file} -t that" in first.text
    assert [mark.text for mark in page.all("mark")] == ["03"], "of the found bytes, the one that differs"
    assert len(page.all("svg")) == 1
    assert "not saved" in second.text


def test_what_ran_is_said() -> None:
    text = html([result([])])
    for words in (
        "Regimes reached: 1 of 2",
        "Regimes not reached: 1 of 2",
        "Skipped operations, by reason",
        "seed",
        "Missing",
    ):
        assert words in text


@pytest.mark.parametrize("summary", [CaseSummary, SequenceSummary, EngineSummary])
def test_no_field_of_a_summary_is_left_out(summary: type[msgspec.Struct]) -> None:
    assert set(summary.__struct_fields__) <= {*SAID, *SHOWN_OTHERWISE}


def test_findings_of_one_fault_are_under_the_simplest() -> None:
    (campaign,) = page_of([result([None, None, None], faults=[Fault("t", ["a line"], [2, 0])])]).campaigns
    one, other = campaign.faults
    assert (len(one.others), one.shared) == (1, "a line")
    assert other.title == "summary of that", "one that is in no fault is not lost"


def test_a_file_that_cannot_be_read_is_no_secret(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    text = html([result([str(tmp_path / "gone.json"), str(tmp_path / "bad.json")])])
    assert "no such file" in text
    assert "not a repro file" in text


@pytest.mark.parametrize("path", ["/a/\ud800.json", "/a/\x00.json", "a\n</code>.json"])
def test_a_path_may_be_anything(path: str) -> None:
    text = html([result([path])])
    assert "no such file" in text
    read(text.encode().decode())


def test_a_command_that_was_broken_off_has_a_page() -> None:
    assert "no such target" in html([broken_off(Refusal("no such target"))])


def test_sequences_are_shown_too() -> None:
    summary = msgspec.structs.replace(
        sequence_summary([sequence_finding("left-out-row", None)]), faults=[Fault("t", [], [0])]
    )
    text = html([result_of(summary)])
    assert "left-out-row" in text
    assert "What the sequences met" in text


def test_what_does_not_count_is_said() -> None:
    plain = result([None, None])
    standing = Standing(muted=[Muted(finding=1, mute="that", reason="wait for <b>release</b>", until="2030-01-01")])
    text = html([replace(plain, json={**plain.json, "standing": msgspec.to_builtins(standing)})])
    assert text.count("muted: wait for &lt;b&gt;release&lt;/b&gt;, until 2030-01-01") == 1
    assert "In the light of what was known" in text


def test_a_regression_is_called_so() -> None:
    plain = result([None, None])
    findings = msgspec.json.decode(msgspec.json.encode(plain.json["findings"]))
    findings[1]["regression"] = True
    (campaign,) = page_of([replace(plain, json={**plain.json, "findings": findings})]).campaigns
    assert [fault.first.known for fault in campaign.faults] == ["", "REGRESSION of that"]


def test_no_text_becomes_markup(tmp_path: Path) -> None:
    file = saved(read_repro(SMALL), tmp_path, HOSTILE.replace("\ud800", ""))
    text = html([result([file, None], HOSTILE)])
    page = read(text)
    assert not page.all("script")
    assert not page.all("img")
    assert not [name for element in page.elements for name in element.attributes if name.startswith("on")]
    assert "{{ 7*7 }}" in text, "a text is not a template"
    assert all(letter.isprintable() or letter == "\n" for letter in text)
    text.encode()  # no surrogate is left
    assert page.all("svg"), "and there is a picture that could have been injected into"


def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    page = read(html([result([saved(read_repro(SMALL), tmp_path), None])]))
    named = [
        element.attributes[name]
        for element in page.elements
        for name in ("href", "src", "xlink:href", "action", "data")
        if name in element.attributes
    ]
    assert named
    assert {one for one in named if one and not one.startswith("#")} == {"data:,"}
    assert not re.search(r"url\(|@import", page.all("style")[0].text)
    ids = [element.attributes["id"] for element in page.elements if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    assert {one.removeprefix("#") for one in named if one and one.startswith("#")} <= set(ids)


def test_headings_leave_out_no_level(tmp_path: Path) -> None:
    page = read(html([result([None])]))
    levels = [int(element.tag[1]) for element in page.elements if re.fullmatch(r"h\d", element.tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def colours(text: str) -> list[dict[str, str]]:
    """The variables of the page, in light and in dark."""
    blocks = re.findall(r":root \{(.*?)\}", text, re.DOTALL)
    return [dict(re.findall(r"--(\w+): (#\w{6})", block)) for block in blocks]


def contrast(one: str, other: str) -> float:
    """The ratio of luminances, as WCAG 2 defines it."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_every_text_can_be_read_in_light_and_dark() -> None:
    both = colours(html([]))
    assert len(both) == 2
    for names in both:
        for back in ("back", "cell", "pink", "sand", "edge"):
            assert contrast(names["text"], names[back]) >= 4.5, back
        for text in ("dim", "link"):
            assert contrast(names[text], names["back"]) >= 4.5, text
        for back in ("pink", "edge"):  # the tail of a cell
            assert contrast(names["dim"], names[back]) >= 4.5, back
        for line in ("red", "green", "blue", "orange"):
            assert contrast(names[line], names["back"]) >= 3, line


def test_a_thousand_findings_fit_in_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    repro = read_repro(SMALL)
    files = [saved(repro, tmp_path, name=f"{number}.json") for number in range(1000)]
    regimes = {f"regime {number}": number % 3 for number in range(300)}
    begin = time.perf_counter()
    text = html([result(files, regimes=regimes)])
    seconds = time.perf_counter() - begin
    with capsys.disabled():
        print(f"\n1,000 faults: {len(text) / 1e6:.1f} MB, made in {seconds:.1f} s")
    assert len(text.encode()) < 20e6


@pytest.mark.parametrize(
    ("title", "heading"),
    [
        ("a short one: as it is", "a short one: as it is"),
        (
            f"block 4 {'x' * 60}: holds the wrong bytes; expected {'00 ' * 40}",
            f"block 4 {'x' * 60}: holds the wrong bytes",
        ),
        (f"race between {'x' * 60}: program 0, {'y' * 200}", f"race between {'x' * 60}"),
        (f"x; {'y' * 300}", f"x; {'y' * 154}..."),
        ("z" * 161, "z" * 157 + "..."),
    ],
)
def test_a_heading_ends_where_a_part_of_the_sentence_ends(title: str, heading: str) -> None:
    assert heading_of(title) == heading
    assert len(heading) <= HEADING

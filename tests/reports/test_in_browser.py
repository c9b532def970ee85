"""The page in a browser: nothing goes wrong in it, it asks for nothing, keys reach all of it, and it can be read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.reports.written.html import html
from harness.reports.written.page import OPEN_FAULTS
from harness.reports.written.result import result_of
from harness.repro import read_repro
from harness.subject.faults import Fault
from tests.reports.chromium import Tab, browser
from tests.reports.pages import KINDS, result, results_of_all_kinds, saved
from tests.summaries import sequence_finding, sequence_summary

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "corpus"
HOSTILE = "</script><script>console.error(1)</script><img src=http://127.0.0.1:1/x onerror=alert(1)>"

CONTRASTS = """
(() => {
  const parts = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const one = value => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    return 0.2126 * one(r) + 0.7152 * one(g) + 0.0722 * one(b);
  };
  const clear = colour => colour === 'none' || parts(colour)[3] === 0;
  const behind = element => {
    if (element.tagName === 'text' && element.parentElement.tagName === 'g') {
      const box = getComputedStyle(element.parentElement.querySelector('rect')).fill;
      if (!clear(box)) return box;
    }
    for (let one = element; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (!clear(colour)) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const found = [];
  for (const element of document.querySelectorAll('body *')) {
    if (![...element.childNodes].some(node => node.nodeType === 3 && node.data.trim())) continue;
    if (!element.checkVisibility() || element.tagName === 'title') continue;
    const style = getComputedStyle(element);
    const colour = element.tagName === 'text' ? style.fill : style.color;
    const [one, other] = [colour, behind(element)].map(parts).map(light);
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    found.push([ratio, element.tagName + ' ' + element.textContent.slice(0, 40)]);
  }
  return found;
})()
"""

FOCUSED = """
(() => {
  const all = [...document.querySelectorAll('a[href], summary')];
  return all.indexOf(document.activeElement);
})()
"""
OPEN_ALL = "document.querySelectorAll('details').forEach(one => { one.open = true; })"


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser(tmp_path_factory.mktemp("profile")) as one:
        yield one


def page(folder: Path, faults: int, words: str = "that") -> Path:
    """A page with so many faults of kernels, and three of sequences."""
    repro = read_repro(CORPUS / "ds-window-as-sd.json")
    files: list[str | None] = [saved(repro, folder, words, f"{number}.json") for number in range(faults)]
    names = ("padded-fresh-row", "split-block-size", "checkpoint-mid-block")
    found = [sequence_finding(name, str(CORPUS / "sequences" / f"{name}.json")) for name in names]
    summary = sequence_summary(found)
    summary.faults = [Fault(name, [], [number]) for number, name in enumerate(names)]
    path = folder / "page.html"
    path.write_text(html([result(files, words), result_of(summary)]))
    return path


def problems(tab: Tab) -> list[str]:
    """What a console would show in red."""
    found = [str(said) for method, said in tab.events if method == "Runtime.exceptionThrown"]
    found += [str(said) for method, said in tab.events if method == "Runtime.consoleAPICalled"]
    return found + [str(said["entry"]) for method, said in tab.events if method == "Log.entryAdded"]


def kept_shots(tab: Tab, name: str, dark: bool, *, whole: bool = False) -> None:
    """Keep a screenshot where HARNESS_SCREENSHOTS says, if it does."""
    kept = os.environ.get("HARNESS_SCREENSHOTS")
    if kept is not None:
        Path(kept).mkdir(parents=True, exist_ok=True)
        tab.screenshot(Path(kept, f"{name}-{'dark' if dark else 'light'}.png"), whole=whole)


def requests(tab: Tab) -> list[str]:
    return [said["request"]["url"] for method, said in tab.events if method == "Network.requestWillBeSent"]


@pytest.mark.long
def test_a_page_asks_for_nothing_and_nothing_goes_wrong(tab: Tab, tmp_path: Path) -> None:
    path = page(tmp_path, 2, HOSTILE)
    tab.open(path)
    tab.evaluate(OPEN_ALL)
    tab.evaluate("new Promise(done => setTimeout(done, 200))")
    assert problems(tab) == []
    assert {one for one in requests(tab) if not one.startswith("data:")} == {path.as_uri()}
    assert tab.evaluate("document.querySelectorAll('svg').length") == 5


@pytest.mark.long
@pytest.mark.parametrize("faults", [3, OPEN_FAULTS + 2])
def test_every_finding_is_reached_with_keys(tab: Tab, tmp_path: Path, faults: int) -> None:
    tab.open(page(tmp_path, faults))
    reached: set[int] = set()
    for _ in range(1000):
        tab.press("Tab")
        number = tab.evaluate(FOCUSED)
        if number in reached:
            break
        reached.add(number)
        if not tab.evaluate("document.activeElement.matches('details:not([open]) > summary')"):
            continue
        tab.press("Enter")
        assert tab.evaluate("document.activeElement.parentElement.open")
    assert reached - {-1} == set(range(tab.evaluate("document.querySelectorAll('a[href], summary').length")))
    hidden = "[...document.querySelectorAll('.fault dl')].filter(one => !one.checkVisibility()).length"
    assert tab.evaluate(hidden) == 0
    assert tab.evaluate("document.querySelectorAll('.fault').length") == faults + 3


@pytest.mark.long
@pytest.mark.parametrize("dark", [False, True])
def test_every_text_can_be_read(tab: Tab, tmp_path: Path, dark: bool) -> None:
    tab.open(page(tmp_path, 2), dark=dark)
    tab.evaluate(OPEN_ALL)
    found = tab.evaluate(CONTRASTS)
    assert len(found) > 200
    assert [words for ratio, words in found if ratio < 4.5] == []
    kept_shots(tab, "hostile", dark)


@pytest.mark.long
@pytest.mark.parametrize("dark", [False, True])
def test_every_kind_of_finding_is_drawn_and_can_be_read(tab: Tab, tmp_path: Path, dark: bool) -> None:
    path = tmp_path / "page.html"
    path.write_text(html(results_of_all_kinds(ROOT)))
    tab.open(path, dark=dark)
    kept_shots(tab, "kinds-folded", dark, whole=True)
    tab.evaluate(OPEN_ALL)
    assert problems(tab) == []
    assert tab.evaluate("document.querySelectorAll('.fault').length") == len(KINDS)
    assert tab.evaluate("[...document.querySelectorAll('.fault')].every(one => one.querySelector('svg'))")
    assert [words for ratio, words in tab.evaluate(CONTRASTS) if ratio < 4.5] == []
    kept_shots(tab, "kinds", dark, whole=True)


@pytest.mark.long
@pytest.mark.parametrize("width", [400, 1280])
def test_no_width_makes_the_page_scroll_sideways(tab: Tab, tmp_path: Path, width: int) -> None:
    tab.open(page(tmp_path, 2), width=width)
    tab.evaluate(OPEN_ALL)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.long
def test_the_pictures_of_smallest_cases_fit_in_a_window(tab: Tab, tmp_path: Path) -> None:
    tab.open(page(tmp_path, 1))
    heights = tab.evaluate("[...document.querySelectorAll('svg')].map(one => one.getBoundingClientRect().height)")
    assert len(heights) == 4
    assert max(heights) <= 800


@pytest.mark.long
def test_how_long_a_thousand_findings_take(tab: Tab, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    repro = read_repro(CORPUS / "ds-window-as-sd.json")
    files: list[str | None] = [saved(repro, tmp_path, name=f"{number}.json") for number in range(1000)]
    path = tmp_path / "page.html"
    path.write_text(html([result(files, regimes={f"regime {number}": number % 3 for number in range(300)})]))
    seconds = tab.open(path)
    tall = tab.evaluate("document.documentElement.scrollHeight")
    with capsys.disabled():
        print(f"\n1,000 faults in a browser: {seconds:.2f} s, {path.stat().st_size / 1e6:.1f} MB, {tall} pixels high")
    assert tab.evaluate("document.querySelectorAll('.fault').length") == 1000

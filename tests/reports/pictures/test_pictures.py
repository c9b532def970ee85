"""Pictures say what files say: where things lie, what had to move, what is wrong, and which step led there."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from harness.check.outcome import Difference, Evidence, Signature
from harness.end_to_end.confirming import WrongToken
from harness.reports.pictures.arena import MOST_BLOCKS
from harness.reports.pictures.copies_due import plan_of
from harness.reports.pictures.picture import Arrow, Cell, Lane, Panel, Picture, Point
from harness.reports.pictures.plain_text import plain_text
from harness.reports.pictures.registry import picture_of
from harness.reports.pictures.svg import svg
from harness.reports.pictures.timeline import MOST_STEPS, START, timeline
from harness.repro import EngineRepro, Repro, SequenceRepro, read_any, read_repro

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted((ROOT / "corpus").rglob("*.json")) + sorted((ROOT / "tests/harness/end_to_end/data").glob("*.json"))
SEQUENCES = sorted((ROOT / "corpus" / "sequences").glob("*.json"))
HOSTILE = "<b onclick='x'>&\"\n]]>\x1b\ud800"


def kernel(name: str, *differences: Difference) -> Repro:
    """A file of the corpus, with other differences if some are given."""
    repro = read_repro(ROOT / "corpus" / name)
    return msgspec.structs.replace(repro, evidence=Evidence("s", differences)) if differences else repro


def sequence(name: str) -> SequenceRepro:
    _, repro = read_any(ROOT / "corpus" / "sequences" / name)
    assert isinstance(repro, SequenceRepro)
    return repro


def drawn(repro: Repro | SequenceRepro | EngineRepro) -> Picture:
    picture = picture_of(repro)
    assert picture is not None
    return picture


def marks(panel: Panel, mark: str) -> list[tuple[int, str]]:
    """Lane and heading of each cell with a mark."""
    return [
        (number, panel.columns[column])
        for number, lane in enumerate(panel.lanes)
        for column, cell in enumerate(lane.cells)
        if cell is not None and mark in (cell.mark, f"tail {cell.tail_mark}" if cell.tail else "")
    ]


def difference(offset: int, kind: str, contents: str = "") -> Difference:
    return Difference("stray-write", kind, "there", offset, 1, "00", "00", "ff", "", contents)


def test_the_wrong_block_and_the_move_that_was_due_are_shown() -> None:
    blocks, values = drawn(kernel("ds-window-as-sd.json")).panels
    assert list(blocks.columns) == ["guard", "block 0", "block 1", "block 2", "guard"]
    assert marks(blocks, "wrong") == [(0, "block 1")]
    assert blocks.arrows == [Arrow("due", Point(0, 2), Point(0, 2), "from token 1")]
    assert values.columns[:2] == ["row 0, token 0", "row 1, token 0"], "the rows of a DS window lie apart"
    texts = {lane.name: lane.cells[0].text for lane in values.lanes if lane.cells[0]}
    assert texts == {"comes from": "block 1, token 1", "before": "84 69", "expected": "cc c2", "found": "a6 41"}
    assert marks(values, "wrong") == [(3, name) for name in values.columns]


def test_found_bytes_point_to_where_they_are_from() -> None:
    repro = kernel("ds-window-as-sd.json")
    (first, *_) = repro.evidence.differences
    wrong = msgspec.structs.replace(first, contents="expected x, found those of block 2 (column 1 of slot 0)")
    blocks = drawn(kernel("ds-window-as-sd.json", wrong)).panels[0]
    assert [arrow for arrow in blocks.arrows if arrow.kind == "found"] == [Arrow("found", Point(0, 3), Point(0, 2))]


@pytest.mark.parametrize("before", [True, False])
def test_a_written_guard_is_marked_on_its_side(before: bool) -> None:
    name = "v2-accepted-race-many-programs.json"
    repro = kernel(name)
    start = plan_of(repro.case).base.buffers[0]
    offset = start - 1 if before else start + repro.case.layout.buffers[0].size
    blocks = drawn(kernel(name, difference(offset, "guard"))).panels[0]
    ((_, column),) = [
        (lane, number)
        for lane, cells in enumerate(blocks.lanes)
        for number, cell in enumerate(cells.cells)
        if cell is not None and cell.mark == "wrong"
    ]
    assert column == (0 if before else len(blocks.columns) - 1)


def test_written_padding_is_marked_behind_its_block() -> None:
    name = "v2-accepted-race-many-programs.json"
    place = plan_of(kernel(name).case).base.states[0]
    behind = place.block(2) + place.extent
    blocks = drawn(kernel(name, difference(behind, "padding"))).panels[0]
    assert [column for _, column in marks(blocks, "tail wrong")] == ["block 2"]


def test_many_blocks_are_left_out_but_not_those_it_is_about() -> None:
    blocks = drawn(kernel("v2-accepted-race-many-programs.json")).panels[0]
    assert len(blocks.columns) <= MOST_BLOCKS + 2
    assert "blocks 8 to 128" in blocks.columns
    assert marks(blocks, "wrong")[0] == (1, "block 1")
    assert blocks.arrows[0] == Arrow("due", Point(1, 3), Point(1, 2))
    assert "8 states of 128, 129 blocks; 12 more copies" in blocks.title


@pytest.mark.parametrize("name", ["shift-within-block-sd.json", "shift-within-block-ds.json"])
def test_both_accesses_of_a_race_are_shown(name: str) -> None:
    blocks, race = drawn(kernel(name)).panels
    assert marks(blocks, "wrong") == [(0, "block 1")]
    first, byte, second = (lane.cells[0] for lane in race.lanes)
    assert first is not None
    assert byte is not None
    assert second is not None
    assert "program (0, 0, 0), warp 0\nloads it\n" in first.text
    assert "program (0, 0, 0), warp 1\nstores it\n" in second.text
    assert byte.mark == "wrong"
    assert list(race.arrows[:2]) == [
        Arrow("access", Point(1, 0), Point(0, 0)),
        Arrow("access", Point(2, 0), Point(1, 0)),
    ]


def test_what_is_about_no_memory_has_no_picture() -> None:
    assert picture_of(kernel("address-past-2-63.json")) is None


def test_a_timeline_marks_the_wrong_read_and_what_wrote_it_last() -> None:
    (panel,) = drawn(sequence("padded-fresh-row.json")).panels
    ((_, wrong),) = marks(panel, "wrong")
    ((_, cause),) = marks(panel, "cause")
    assert panel.columns.index(cause) < panel.columns.index(wrong)
    assert panel.lanes[0].name.startswith("request ")


def test_copies_are_arrows_between_blocks() -> None:
    (panel,) = drawn(sequence("checkpoint-mid-block.json")).panels
    names = [lane.name for lane in panel.lanes]
    ends = [(names[arrow.start.lane], names[arrow.end.lane], arrow.label) for arrow in panel.arrows]
    assert ends == [
        ("block 3", "block 7 (group 1)", "block copy"),
        ("block 7 (group 1)", "block 9 (group 1)", "precopy"),
    ]


@pytest.mark.parametrize("file", SEQUENCES, ids=lambda file: file.stem)
def test_every_line_of_a_history_is_understood(file: Path) -> None:
    """So the words of `harness.oracles.states.history` and their reader fit together."""
    repro = sequence(file.name)
    picture = timeline(repro)
    if picture is None:
        assert START not in repro.evidence.details
    else:
        assert not picture.captions


def test_a_line_of_another_form_is_a_caption() -> None:
    repro = sequence("padded-fresh-row.json")
    more = msgspec.structs.replace(repro.evidence, details=(*repro.evidence.details, "step 3: something new"))
    picture = timeline(msgspec.structs.replace(repro, evidence=more))
    assert picture is not None
    assert picture.captions == ["step 3: something new"]


def engine(*details: str) -> EngineRepro:
    repro = sequence("padded-fresh-row.json")
    return EngineRepro(
        signature=Signature("engine", "tokens", "wrong-token", "tokens", "-"),
        evidence=Evidence("step 4, request 2", (), 0, details),
        origin=repro.origin,
        sequence=repro.sequence,
    )


def test_streams_part_at_the_first_wrong_token() -> None:
    line = f"{WrongToken(request=2, output=2, position=9, said=5, due=7, margin=0.3).text}, said in step 4"
    picture = drawn(engine("first wrong state: y", line, "a fused kernel: x"))
    (panel,) = picture.panels
    assert picture.captions == ["first wrong state: y", "a fused kernel: x"]
    assert (
        panel.title
        == "request 2, position 9: the logit of the due token there is 0.3 above the second best, said in step 4"
    )
    assert list(panel.columns) == ["output 0", "output 1", "output 2"]
    assert [[cell.text for cell in lane.cells if cell] for lane in panel.lanes] == [
        ["agree", "agree", "5"],
        ["agree", "agree", "7"],
    ]
    assert marks(panel, "wrong") == [(0, "output 2")]
    assert picture_of(engine("a fused kernel: x")) is None
    wrong = WrongToken(request=2, output=1, position=9, said=None, due=7, margin=0.3, probe=True)
    nothing = drawn(engine(wrong.text))
    assert [[cell.text for cell in lane.cells if cell] for lane in nothing.panels[0].lanes] == [
        ["agree", "nothing"],
        ["agree", "7"],
    ]
    assert nothing.panels[0].title.startswith("a request added to see what the cache holds, position 9")


def test_every_wrong_token_that_was_kept_is_drawn() -> None:
    files = [file for file in FILES if file.name.startswith("engine-")]
    assert len(files) >= 9
    for file in files:
        _, repro = read_any(file)
        assert isinstance(repro, EngineRepro)
        assert marks(drawn(repro).panels[0], "wrong"), file


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
@pytest.mark.parametrize("width", [80, 200])
def test_every_picture_fits(file: Path, width: int) -> None:
    picture = picture_of(read_any(file)[1])
    if picture is None:
        return
    for panel in picture.panels:
        assert all(len(lane.cells) == len(panel.columns) for lane in panel.lanes)
    assert max(map(len, plain_text(picture, width))) <= width
    root = ElementTree.fromstring(svg(picture))
    _, _, right, bottom = map(float, root.attrib["viewBox"].split())
    for box in root.iter("{http://www.w3.org/2000/svg}rect"):
        x, y, wide, high = (float(box.attrib[name]) for name in ("x", "y", "width", "height"))
        assert 0 <= x <= x + wide <= right
        assert 0 <= y <= y + high <= bottom


def test_texts_in_pictures_are_no_markup() -> None:
    cells = [Cell(HOSTILE, "wrong", f"{HOSTILE} 2", HOSTILE), None]
    panel = Panel(
        HOSTILE, [HOSTILE, HOSTILE], [Lane(HOSTILE, cells)], [Arrow("due", Point(0, 0), Point(0, 1), HOSTILE)]
    )
    root = ElementTree.fromstring(svg(Picture(HOSTILE, [panel])))
    assert {element.tag.rpartition("}")[2] for element in root.iter()} == {"svg", "g", "rect", "path", "text", "title"}
    assert not [name for element in root.iter() for name in element.attrib if name.startswith("on")]


def test_the_smallest_cases_need_no_scrolling() -> None:
    for file in FILES:
        picture = picture_of(read_any(file)[1])
        if picture is not None and file.stem != "v2-accepted-race-many-programs":
            root = ElementTree.fromstring(svg(picture))
            assert float(root.attrib["viewBox"].split()[3]) <= 700, file.stem


def said(text: str, *details: str) -> Picture:
    """The picture of a kernel finding whose evidence is these sentences."""
    repro = kernel("v2-accepted-race-many-programs.json")
    return drawn(msgspec.structs.replace(repro, evidence=Evidence(text, (), 0, details)))


@pytest.mark.parametrize(
    ("words", "mark", "column"),
    [
        ("guard, 256 bytes after buffer 0", "wrong", "guard"),
        ("no object, 256 bytes after buffer 0", "wrong", "guard"),
        (
            "padding, 4 bytes after group 0, layer 1, temporal state 0, block 3 (column 0 of slot 1)",
            "tail wrong",
            "block 3",
        ),
        ("padding, 1 byte before group 0, layer 1, temporal state 0, block 3 (in no table)", "tail wrong", "block 2"),
        ("padding, 9 bytes before group 0, layer 1, temporal state 0, null block 0", "wrong", "guard"),
        ("a gap between rows of group 0, layer 1, temporal state 0, block 4 (x)", "wrong", "block 4"),
    ],
)
def test_the_place_of_a_refused_access_is_marked(words: str, mark: str, column: str) -> None:
    blocks = said(f"out-of-bounds 8-byte store at {words}; a_kernel, a.py:96 (b)").panels[0]
    assert [name for _, name in marks(blocks, mark)] == [column]


def test_wrong_numbers_are_shown() -> None:
    panel = said("accepted count of batch row 0: expected 1, found 16", "accepted_out[0]: expected 1, found 16").panels[
        -1
    ]
    assert list(panel.columns) == ["accepted_out[0]"]
    assert [[cell.text for cell in lane.cells if cell] for lane in panel.lanes] == [["1"], ["16"]]
    shown = difference(0, "accepted", "accepted[29] was 2, expected 1, found 3")
    panel = drawn(kernel("v2-accepted-race-many-programs.json", shown)).panels[-1]
    assert [(lane.name, lane.cells[0].text) for lane in panel.lanes if lane.cells[0]] == [
        ("before", "2"),
        ("expected", "1"),
        ("found", "3"),
    ]


def test_files_that_no_campaign_wrote_do_no_harm() -> None:
    """Evidence may say anything, as long as it is text."""
    many = "9" * 5000
    repro = sequence("padded-fresh-row.json")
    lines = [f"step {number}: request {number} preempted" for number in range(500)]
    details = (f"step: {many}", f"where: block {many}", START, *lines, f"step {many}: block 1 is copied to block 2")
    picture = drawn(msgspec.structs.replace(repro, evidence=Evidence("s", (), 0, details)))
    assert len(picture.panels[0].columns) == MOST_STEPS
    assert len(picture.captions) == 1
    text = f"group {many}, layer 0, conv state 0, block 1; group 7, layer 7, temporal state 7, block 7777"
    for one in (
        picture,
        said(text),
        said("x", "group 0, layer 0, temporal state 0, block 7777"),
        said(f"a: expected {many}"),
    ):
        ElementTree.fromstring(svg(one))
        assert max(map(len, plain_text(one, 80))) <= 80
    assert picture_of(engine(f"request 1, output {many} (position 9): the engine says nothing")) is None

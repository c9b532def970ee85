"""A story tells what concerns a violation, and from where a state came."""

from __future__ import annotations

from harness.oracles.meaning.device import NOBODY, Writer
from harness.oracles.meaning.plan import ForwardRow, MoveRow, StepPlan
from harness.oracles.meaning.story import MOST_LINES, STEPS, Story
from harness.oracles.meaning.violation import Violation


def row(request: str, table: list[int], **changes: int) -> ForwardRow:
    plain = ForwardRow(request, 0, 8, 1, 0, False, 1, 1, True, 0, 0, (table,), ([20],))
    return plain._replace(**changes)


def violation(request: str = "request 1", block: int = 5, writer: Writer = NOBODY) -> Violation:
    return Violation("wrong-state-read", "temporal", 9, request, 1, 1, block, writer, "this", "that")


def test_the_source_of_a_copy_is_told() -> None:
    story = Story((1,))
    move = MoveRow("request 1", 0, 0, 1, 0, ([0, 5],))
    back = MoveRow("request 1", 0, 1, 0, 1, ([4, 5, 6],))
    story.begin(3, StepPlan(copies=[(7, 5), (8, 9)], precopy=[move], rows=[row("request 1", [0, 5], drafts=2)]))
    story.end({"request 1": 2}, [back])
    assert story.tell(violation()) == [
        "step 3: block 7 is copied to block 5",
        "step 3: precopy of request 1: column 0 to column 1, bias 0; group 1: the null block to block 5",
        "step 3: row of request 1: 1 token from 8 on, 2 of them drafts, 2 sampled; state column 1; group 1: block 5",
        "step 3: postprocess of request 1: column 1 to column 0, bias 1; group 1: block 6 (conv: block 5) to block 4",
    ]


def test_others_are_told_where_they_hold_the_block_or_wrote_it() -> None:
    story = Story((1,))
    story.begin(1, StepPlan(rows=[row(f"request {n}", [n, n + 3]) for n in (1, 2, 4)]))
    story.end({}, [])
    told = "\n".join(story.tell(violation()))
    assert "request 1" in told
    assert "request 2" in told
    assert "request 4" not in told
    assert "request 4" in "\n".join(story.tell(violation(writer=Writer(1, "request 4", 1, 1, "forward pass"))))


def test_a_violation_of_nobody_and_nowhere_tells_everything_but_not_for_ever() -> None:
    story = Story((1,))
    for number in range(1, 8):
        story.begin(number, StepPlan(rows=[row(f"request {n}", [n]) for n in range(20)]))
        story.end({}, [])
    told = story.tell(violation("the engine", -1))
    assert told[0] == f"... {STEPS * 20 - MOST_LINES} lines before"
    assert len(told) == MOST_LINES + 1
    assert told[-1].startswith("step 7: row of request 19: 1 token from 8 on; state column 1; group 1: outside")

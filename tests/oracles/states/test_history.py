"""A history has what concerns a violation: where a state came from, and what the scheduler decided."""

from __future__ import annotations

from harness.case.step_plan import MoveRow, PlannedRow, StepPlan
from harness.oracles.states.device import NO_WRITER, Writer
from harness.oracles.states.history import MOST_LINES, STEPS, Decisions, History
from harness.oracles.states.violation import Violation


def row(request: str, table: list[int], **changes: int) -> PlannedRow:
    plain = PlannedRow(request, 0, 8, 1, 0, False, 1, 1, True, 0, 0, (table,), ([20],))
    return plain._replace(**changes)


def violation(request: str = "request 1", block: int = 5, writer: Writer = NO_WRITER) -> Violation:
    return Violation("wrong-state-read", "temporal", 9, request, 1, 1, block, writer, "this", "that")


def test_the_source_of_a_copy_is_listed() -> None:
    history = History((1,))
    move = MoveRow("request 1", 0, 0, 1, 0, ([0, 5],))
    back = MoveRow("request 1", 0, 1, 0, 1, ([4, 5, 6],))
    history.begin(3, StepPlan(copies=[(7, 5), (8, 9)], precopy=[move], rows=[row("request 1", [0, 5], drafts=2)]))
    history.end({"request 1": 2}, [back])
    assert history.tell(violation()) == [
        "step 3: block 7 is copied to block 5",
        "step 3: precopy of request 1: column 0 to column 1, bias 0; group 1: the null block to block 5",
        "step 3: row of request 1: 1 token from position 8, 2 drafts, 2 sampled; state column 1; group 1: block 5",
        "step 3: postprocess of request 1: column 1 to column 0, bias 1; group 1: block 6 (conv: block 5) to block 4",
    ]


def test_other_requests_are_listed_if_they_hold_or_wrote_the_block() -> None:
    history = History((1,))
    history.begin(1, StepPlan(rows=[row(f"request {n}", [n, n + 3]) for n in (1, 2, 4)]))
    history.end({}, [])
    lines = "\n".join(history.tell(violation()))
    assert "request 1" in lines
    assert "request 2" in lines
    assert "request 4" not in lines
    assert "request 4" in "\n".join(history.tell(violation(writer=Writer(1, "request 4", 1, 1, "forward pass"))))


def test_without_request_and_block_a_history_has_everything_up_to_a_limit() -> None:
    history = History((1,))
    for number in range(1, 8):
        history.begin(number, StepPlan(rows=[row(f"request {n}", [n]) for n in range(20)]))
        history.end({}, [])
    lines = history.tell(violation("the engine", -1))
    assert lines[0] == f"... {STEPS * 20 - MOST_LINES} lines before"
    assert len(lines) == MOST_LINES + 1
    assert lines[-1].startswith("step 7: row of request 19: 1 token from position 8; state column 1; group 1: outside")


def scheduled(history: History, number: int, decisions: Decisions, *rows: PlannedRow) -> None:
    history.schedule(number, decisions.started, lambda: decisions)
    history.begin(number, StepPlan(rows=list(rows)))
    history.end({}, [])


def test_decisions_of_the_scheduler_are_listed_for_the_requests_concerned() -> None:
    history = History((1,))
    one = {"request 1": 1}
    scheduled(history, 1, Decisions(started={"request 1": 8, "request 2": 0}, scheduled={**one, "request 2": 1}))
    scheduled(history, 2, Decisions(finished={"request 2"}), row("request 3", [5, 6]), row("request 4", [7]))
    scheduled(history, 3, Decisions(preempted={"request 1", "request 3", "request 4"}))
    scheduled(history, 4, Decisions(resumed={"request 1": 16}, scheduled=one, finished={"request 3"}))
    assert history.tell(violation()) == [
        "step 1: request 1 admitted with 8 tokens computed",
        "step 2: request 1 left out (not scheduled)",
        "step 2: row of request 3: 1 token from position 8; state column 1; group 1: block 6",
        "step 3: request 1 preempted",
        "step 3: request 3 preempted",
        "step 4: request 3 finished or aborted",
        "step 4: request 1 resumed with 16 tokens computed",
    ]


def test_a_request_that_starts_twice_is_resumed() -> None:
    history = History((1,))
    for number, computed in ((1, 0), (2, 1)):
        scheduled(history, number, Decisions(started={"request 1": computed}, scheduled={"request 1": 1}))
    assert history.tell(violation()) == [
        "step 1: request 1 admitted with 0 tokens computed",
        "step 2: request 1 resumed with 1 token computed",
    ]


def test_requests_running_before_the_first_listed_step_are_known() -> None:
    history = History((1,))
    scheduled(history, 1, Decisions(started={"request 1": 0}, scheduled={"request 1": 1}))
    for number in range(2, STEPS + 2):
        scheduled(history, number, Decisions())
    assert history.tell(violation()) == [f"step {n}: request 1 left out (not scheduled)" for n in range(2, STEPS + 2)]


def test_a_step_that_was_never_planned_says_what_was_scheduled() -> None:
    history = History((1,))
    made: list[str] = []

    def decisions() -> Decisions:
        made.append("words")
        return Decisions(scheduled={"request 1": 3, "request 2": 1}, drafts={"request 1": 2})

    history.schedule(7, [], decisions)
    assert made == []
    assert history.tell(violation(block=-1)) == ["step 7: request 1 scheduled, 3 tokens, 2 drafts"]

"""left-out-row: a V1 decode that is left out of a step keeps its accepted count (docs/reports/left-out-row.md).

In vLLM's tests: two requests in `model_runner`, and `scheduler_output`s that name one of them, then both.
"""

from __future__ import annotations

import dataclasses

from harness.kernels.targets.vllm.scheduling.rules import RunnerRules
from tests.maintainers.objects import EarlierRank, Scheduled, V1Worker, all_show, config

ISSUE = "left-out-row"


def check(worker: V1Worker) -> None:
    """Both requests decode with two drafts, and no row ends a block."""
    prompt = (1, 2, 3)
    worker.execute(Scheduled("a", 0, 3, new=prompt), Scheduled("b", 0, 3, new=prompt))
    worker.sample()
    worker.execute(Scheduled("a", 3, 3, drafts=2, outputs=1), Scheduled("b", 3, 3, drafts=2, outputs=1))
    worker.sample(a=3)  # the state of its 6 tokens is now in the second speculative column
    worker.execute(Scheduled("b", 4, 3, drafts=2, outputs=2))
    worker.sample()
    rows = worker.execute(Scheduled("a", 6, 3, drafts=2, outputs=4), Scheduled("b", 5, 3, drafts=2, outputs=3))
    assert rows["a"].accepted == 3, f"layers are told that the last step of a accepted {rows['a'].accepted}, not 3"


def check_an_empty_step(worker: V1Worker) -> None:
    """A step without tokens, as the engine sends one with pipeline parallelism for a request in flight that has no
    drafts (docs/reports/left-out-row.md)."""
    worker.execute(Scheduled("a", 0, 3, new=(1, 2, 3)))
    worker.sample()
    worker.execute(Scheduled("a", 3, 3, drafts=2, outputs=1))
    worker.sample(a=3)
    worker.execute()
    rows = worker.execute(Scheduled("a", 6, 3, drafts=2, outputs=4))
    assert rows["a"].accepted == 3, f"layers are told that the last step of a accepted {rows['a'].accepted}, not 3"


def check_an_earlier_rank(worker: EarlierRank) -> None:
    """Pipeline parallelism, a rank that is not the last: no row is left out, and layers get no count all the same."""
    worker.execute(Scheduled("a", 0, 3, new=(1, 2, 3)))
    worker.execute(Scheduled("a", 3, 3, drafts=2, outputs=1))
    counts = worker.execute(Scheduled("a", 6, 3, drafts=2, outputs=4))
    assert counts["a"] == 3, f"layers are told that the last step of a accepted {counts['a']}, not 3"


def run(suggested: bool) -> None:
    """The suggested rule: the count of a row that leaves the batch without being preempted or ended is kept, and put
    back with the row. It has nothing to keep on a rank that is not the last, which it leaves as it is."""
    settings = config(spec_method="mtp", num_spec=2, block_size=16)

    def rules(given: RunnerRules) -> RunnerRules:
        return dataclasses.replace(given, keeps_accepted=suggested)

    def left_out(_: bool) -> None:
        check(V1Worker(settings, rules))

    def empty_step(_: bool) -> None:
        check_an_empty_step(V1Worker(settings, rules))

    def earlier_rank(_: bool) -> None:
        check_an_earlier_rank(EarlierRank(settings, rules))

    if suggested:
        try:
            earlier_rank(suggested)
        except AssertionError:
            all_show((left_out, empty_step), suggested)
        else:
            raise RuntimeError(
                "the suggested rule reaches ranks that are not the last: the report says that it does not"
            )
    else:
        all_show((left_out, empty_step, earlier_rank), suggested)

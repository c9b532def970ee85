"""Each check of one run sees a fault that no other check does: without that check, the faulty target passes.

A check that silently stopped working looks like a target without faults; here it fails a test. For relations between
runs there is the same in `tests/oracles/relations`.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

import harness.check.judging
from harness.case import Case, Postprocess, PostprocessRow, Precopy, PrecopyRow
from harness.check.judging import HarnessError
from harness.check.operations.migration import PrecopyCall
from harness.check.session import Session
from harness.kernel_cases.worker import CaseWorker
from harness.kernels.executors.registry import create_executor, executor_class
from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.targets.builtin import BuiltinTarget
from harness.oracles.expected import Expected

MOVE = Precopy(runner="V1", rows=(PrecopyRow(slot=0, source_column=0, destination_column=1, bias=0),))
SHIFT = PostprocessRow(slot=0, scheduled=3, computed=2, draft=2, accepted=2, state_column=0)

WITNESSES: dict[str, tuple[str, Any, str, Sequence[Rewrite], str]] = {
    "byte_evidence": (
        "the state stays in the block it was in",
        MOVE,
        "copy",
        [Rewrite("look_up_blocks", "tl.load(cells + destination_column", "tl.load(cells + source_column")],
        "precopy/memory/wrong-bytes/",
    ),
    "result_evidence": (
        "a count that only the host reads is not reset",
        Postprocess(runner="V1", rows=(SHIFT,)),
        "postprocess",
        [Rewrite("postprocess_kernel", "reaches & (source_column == blocks - 1)", "reaches & (blocks < 0)")],
        "postprocess/memory/wrong-count/accepted",
    ),
    "access_evidence": (
        "a word past the state is read, and thrown away",
        MOVE,
        "copy",
        [
            Rewrite(
                "_copy_words",
                "word = tl.load(from_ + index, mask=index < words)",
                "word = tl.load(from_ + index, mask=index <= words)",
            )
        ],
        "precopy/access/out-of-bounds/",
    ),
    "private_evidence": (
        "a number is written behind a buffer of the target's own",
        Postprocess(runner="V2", rows=(SHIFT,)),
        "postprocess",
        [
            Rewrite(
                "postprocess_kernel",
                "            reaches = inside",
                "            tl.store(counters + 5, num_requests)\n            reaches = inside",
            )
        ],
        "postprocess/memory/stray-write/private",
    ),
}


@pytest.mark.parametrize("check", WITNESSES)
def test_a_fault_that_one_check_alone_sees(
    check: str, make_case: Callable[..., Case], monkeypatch: pytest.MonkeyPatch, executor_name: str
) -> None:
    _, operation, file, rewrites, signature = WITNESSES[check]
    # An executor that watches accesses would be the first to see a store behind a buffer: here it does not watch them.
    watched = ("memory",) if check == "access_evidence" else ()
    if watched and executor_class("native").unavailable() is not None:
        pytest.skip("no executor here watches accesses")
    executor = create_executor(executor_name, watched)
    planted = Mutation("planted", "a fault of this test", {"builtin": {f"fused/{file}.py": [rewrites]}})
    case = make_case(operation, tables=(((1, 2, 2),), ((3, 4, 4),)))

    outcome = Session(BuiltinTarget(executor, [planted]), executor).check(case)
    assert str(outcome.signature).startswith(signature)
    assert Session(BuiltinTarget(executor), executor).check(case).failure is None

    others = tuple(one for one in harness.check.judging.CHECKS if one.__name__ != check)
    assert len(others) == len(harness.check.judging.CHECKS) - 1
    monkeypatch.setattr(harness.check.judging, "CHECKS", others)
    blind = Session(BuiltinTarget(executor, [planted]), executor).check(case)
    assert [verdict.status for verdict in blind.verdicts] == ["pass"]


# The target of the following tests does in Python what the oracle expects: every byte is right.


def test_only_launches_show_a_target_that_runs_no_kernel(
    shop: Any, make_case: Callable[..., Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = make_case(MOVE)
    assert [verdict.status for verdict in shop.check(case).verdicts] == ["pass"]
    shop.launches = 0
    with pytest.raises(HarnessError, match="without launching a kernel, though work was expected"):
        shop.check(case)
    monkeypatch.setattr(Expected, "expects_work", property(lambda self: False))
    assert [verdict.status for verdict in shop.check(case).verdicts] == ["pass"]


def test_only_the_exception_shows_a_target_that_fails_after_its_work(
    shop: Any, make_case: Callable[..., Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Any) -> None:
        raise RuntimeError("after the last kernel")

    case = make_case(MOVE, domain="reachable")
    assert str(shop.check(case, fail).signature) == "precopy/exception/RuntimeError/half-way/-"
    run = PrecopyCall.run

    def swallow(*arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):
            run(*arguments)

    monkeypatch.setattr(PrecopyCall, "run", swallow)
    assert [verdict.status for verdict in shop.check(case, fail).verdicts] == ["pass"]


@pytest.mark.long
@pytest.mark.parametrize(("how", "violation"), [("segfault", "crash-SIGSEGV"), ("exit", "exit-3"), ("hang", "hang")])
def test_only_isolation_shows_a_target_that_takes_its_process_down(
    how: str, violation: str, make_case: Callable[..., Case], broken_targets: Path, executor_name: str
) -> None:
    spec = importlib.util.spec_from_file_location("broken_targets", broken_targets / "broken_targets.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    case = make_case(msgspec.structs.replace(MOVE, runner="V2"))

    with CaseWorker(f"broken:{how}", executor_name, limit=5.0) as worker:
        worker.wait_ready()
        assert str(worker.check(case).signature) == f"precopy/isolation/{violation}/process/-"

    # The same target without the harm, in a process with everything else: nothing is wrong with its bytes.
    executor = create_executor(executor_name)
    harmless = module.BrokenTarget(f"broken:{how}", lambda arrays: None, None, BuiltinTarget(executor))
    assert [verdict.status for verdict in Session(harmless, executor).check(case).verdicts] == ["pass"]

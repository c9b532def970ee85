"""What a pass says about a finding, for each kind of finding: nothing, if what the finding rests on was left out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.case import Case, Execution
from harness.check.looked_at import not_looked_at, rests_on_order
from harness.check.outcome import Evidence, Outcome, Seconds, Signature, Verdict
from harness.kernel_cases.recipe import JudgedCase
from harness.kernel_cases.subject import KernelCases
from harness.repro import Origin, Repro, read_repro

CORPUS = Path(__file__).resolve().parents[3] / "corpus"
PLAIN = Execution()
OFF = Execution(checks=())
INTERLEAVED = Execution(interleave=4, seed=7)
APART = Execution(warps="apart", seed=7)
REVERSED = Execution(program_order="reversed")
HIGH = Execution(high_addresses=True)


def of(oracle: str, violation: str = "wrong-bytes") -> Signature:
    return Signature("postprocess", oracle, violation, "temporal", "-")


@pytest.mark.parametrize(
    ("signature", "found_on", "execution", "executor", "says"),
    [
        # A check that nothing else replaces.
        (of("race", "between-warps"), "native", PLAIN, "native", None),
        (of("race", "between-warps"), "native", OFF, "native", "the check of races is off: try `--checks races`"),
        (of("race", "between-warps"), "native", PLAIN, "cuda", "try `-e native`"),
        (of("race", "between-warps-identical"), "native", PLAIN, "native", "identical-stores is off"),
        (of("undefined", "bytes"), "native", PLAIN, "native", None),
        (of("undefined", "bytes"), "native", OFF, "native", "memory and undefined are off"),
        (of("undefined", "bytes"), "native", PLAIN, "interpreter", "try `-e native`"),
        (of("access", "out-of-bounds"), "native", PLAIN, "native", None),
        (of("access", "out-of-bounds"), "native", OFF, "native", "memory is off"),
        (of("access", "out-of-bounds"), "native", PLAIN, "cuda", "try `-e native`"),
        # Bytes rest on the order of programs, unless races are looked for.
        (of("memory"), "native", OFF, "native", None),
        (of("memory"), "native", INTERLEAVED, "native", None),
        (of("memory"), "native", PLAIN, "cuda", "depends on program order: try `-e native`"),
        (of("memory"), "native", INTERLEAVED, "cuda", "depends on program order: try `-e native`"),
        (of("memory"), "native", PLAIN, "interpreter", None),
        (of("memory"), "native", REVERSED, "interpreter", "depends on program order: try `-e native`"),
        (of("memory"), "native", APART, "interpreter", "depends on program order: try `-e native`"),
        (of("memory"), "cuda", PLAIN, "cuda", None),
        (of("memory"), "cuda", PLAIN, "native", None),
        (of("memory"), "cuda", OFF, "native", "--checks races"),
        (of("memory"), "cuda", PLAIN, "interpreter", "depends on program order: try `-e cuda`"),
        (of("memory"), "interpreter", OFF, "native", None),
        (of("memory"), "interpreter", Execution(program_order="reversed", checks=()), "native", "--checks races"),
        (of("memory"), "an executor of another package", PLAIN, "cuda", "depends on program order"),
        (of("relation:repetition", "differs"), "native", PLAIN, "cuda", "depends on program order"),
        (of("host", "wrong-result"), "native", PLAIN, "cuda", "depends on program order"),
        (of("host", "late-write"), "native", PLAIN, "interpreter", None),
        (of("host", "late-write"), "cuda", PLAIN, "cuda", "does not see when a copy from the host is done"),
        # Host code does the same everywhere, but for the order that it was found in, and addresses.
        (of("exception", "ValueError"), "native", PLAIN, "cuda", None),
        (of("exception", "ValueError"), "native", INTERLEAVED, "cuda", "depends on program order"),
        (of("exception", "ValueError"), "cuda", OFF, "interpreter", "depends on program order: try `-e cuda`"),
        (of("exception", "ValueError"), "native", HIGH, "native", None),
        (of("exception", "ValueError"), "native", HIGH, "cuda", "highest bit"),
        (of("exception", "ValueError"), "interpreter", HIGH, "interpreter", None),
        # A process that was lost.
        (of("isolation", "hang"), "native", PLAIN, "native", None),
        (of("isolation", "hang"), "native", PLAIN, "cuda", "the process was lost on native: try `-e native`"),
        (of("isolation", "crash-SIGSEGV"), "interpreter", PLAIN, "native", "the process was lost on interpreter"),
        (of("isolation", "device-fault"), "cuda", PLAIN, "native", None),
        (of("isolation", "device-fault"), "cuda", OFF, "native", "the process was lost on cuda"),
    ],
)
def test_what_a_pass_says(
    signature: Signature, found_on: str, execution: Execution, executor: str, says: str | None
) -> None:
    reason = not_looked_at(signature, found_on, execution, executor)
    assert reason is None if says is None else reason is not None and says in reason


def test_races_are_looked_for_where_another_order_is_run() -> None:
    assert not rests_on_order(of("memory"), "native", PLAIN, "native")
    assert not rests_on_order(of("memory"), "native", INTERLEAVED, "native")
    assert rests_on_order(of("memory"), "cuda", PLAIN, "native")
    assert not rests_on_order(of("race"), "cuda", PLAIN, "native"), "they are anyway"


def answer(repro: Repro, executor: str, verdict: Verdict) -> tuple[str, str | None]:
    subject = KernelCases(target="vllm==0.27.1", executor=executor, limit=1.0)
    replayed = subject.replayed(repro, JudgedCase(Outcome((verdict,), Seconds())))
    return replayed.answer, replayed.reason


PASS = Verdict("postprocess", "pass", launches=1)


@pytest.mark.parametrize("name", ["temporal", "conv-sd", "conv-ds", "temporal-total"])
def test_a_gpu_that_runs_few_programs_does_not_clear_a_race_on_accepted_counts(name: str) -> None:
    repro = read_repro(CORPUS / f"v2-accepted-race-{name}.json")
    assert answer(repro, "native", PASS) == ("FIXED", None)
    said, reason = answer(repro, "cuda", PASS)
    assert (said, reason) == ("SKIPPED", "depends on program order: try `-e native`")


def test_a_race_is_not_cleared_without_its_check() -> None:
    repro = read_repro(CORPUS / "shift-within-block-sd.json")
    assert answer(repro, "native", PASS) == ("FIXED", None)
    execution = msgspec.structs.replace(repro.case.execution, checks=())
    repro = msgspec.structs.replace(repro, case=msgspec.structs.replace(repro.case, execution=execution))
    assert answer(repro, "native", PASS)[0] == "SKIPPED"


def test_a_refusal_clears_an_exception_and_nothing_else(make_case: Callable[..., Case]) -> None:
    refused = Verdict("precopy", "pass", detail="ValueError: no")
    repro = Repro(
        signature=of("memory"),
        evidence=Evidence("wrong"),
        origin=Origin(target="builtin", executor="native", harness_version="0", generator_version=1),
        case=make_case(),
    )
    assert answer(repro, "native", refused) == ("SKIPPED", "refused: ValueError: no")
    raised = msgspec.structs.replace(repro, signature=of("exception", "ValueError"))
    assert answer(raised, "native", refused) == ("FIXED", None)


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Call it with the executors that this machine has from then on."""

    def have(*names: str) -> None:
        def why(name: str, imports: bool = False) -> str | None:
            return None if name in names else "not on this machine"

        monkeypatch.setattr("harness.kernels.executors.registry.why_unavailable", why)

    return have


def test_a_file_runs_on_the_executor_that_it_names(only: Callable[..., None]) -> None:
    from harness.kernels.executors.registry import recorded_executor_name

    lines: list[Any] = []
    only("cuda", "native", "interpreter")
    assert [recorded_executor_name(name, [].append) for name in ("native", "cuda")] == ["native", "cuda"]
    only("native", "interpreter")
    assert [recorded_executor_name("cuda", lines.append) for _ in range(2)] == ["native", "native"]
    assert lines == [
        "the file is from the executor cuda, which is not available here (not on this machine): native runs it"
    ]

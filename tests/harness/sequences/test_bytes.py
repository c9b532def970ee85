"""The byte device and kernel cases on plans written by hand, through the builtin kernels: no vLLM is needed."""

from __future__ import annotations

from collections import Counter

import pytest

from harness.case import Case, decode_case, encode_case
from harness.case.sequence import Segment, SequenceConfig
from harness.case.step_plan import MoveRow, PlannedRow, PostprocessInput, StartRow, StepPlan
from harness.check.session import Session
from harness.generators.reachability import require_reachable
from harness.oracles.states.device import Device
from harness.oracles.states.state_oracle import StateOracle
from harness.oracles.states.texts import Text
from harness.oracles.states.violation import ViolationFound
from harness.sequences.byte_device import ByteDevice
from harness.sequences.kernel_cases import KernelCaseWriter
from harness.sequences.kernels import KernelChoice, Kernels

NAME = "request 0"
MAMBA = ([1, 2, 3, 4, 5, 6],)
ATTENTION = ([8, 9, 10, 11],)


def config(runner: str, **changes: object) -> SequenceConfig:
    fields = {
        "runner": runner,
        "block_size": 4,
        "spec_method": "mtp",
        "num_spec": 2,
        "length_limit": 16,
        "budget": 16,
        "requests": 2,
        "num_blocks": 23,
    }
    return SequenceConfig(**{**fields, **changes})  # type: ignore[arg-type]


class Scenario:
    """One request: two chunks of a prompt of 8 tokens, then decodes with 2 drafts, of which `right` are right."""

    def __init__(self, kernels: Kernels, config: SequenceConfig, *, dim_first: bool = True) -> None:
        self.config = config
        judge = StateOracle(Device(config.num_blocks, 3 + config.num_spec, 4), 4, 4, (1,), (0,), (4,))
        judge.texts[NAME] = Text((Segment(family=0, length=8),), 2)
        self.meaning = judge
        self.bytes = ByteDevice(kernels, config, judge, dim_first=dim_first)
        judge.after_precopy = self.bytes.start
        self.cases: list[Case] = []
        self.kept = KernelCaseWriter(config, self.cases.append, dim_first=dim_first, steps=3)
        self.column, self.accepted = -1, 1

    def step(self, computed: int, scheduled: int, *, drafts: int = 0, right: int = 0, wrong_source: int = 0) -> None:
        """Run a step; `wrong_source` columns are added to the source that only the kernel gets."""
        column = -(-(computed + scheduled) // 4) - 1
        bias = self.accepted - 1
        moves = self.column not in (-1, column)
        v2 = self.config.runner == "V2"
        start = StartRow(0, self.column + wrong_source, column, bias, self.accepted if v2 else 0, computed, scheduled)
        before = [MoveRow(NAME, 0, self.column, column, bias, MAMBA)] if moves else []
        self.accepted = 1 if moves else self.accepted
        row = PlannedRow(
            *(NAME, 0, computed, scheduled, drafts, drafts > 0, self.accepted, column),
            *(computed + scheduled >= 8, 0, -1, MAMBA, ATTENTION),
        )
        plan = StepPlan(precopy=before, rows=[row], starts=[start])
        outcome = self.meaning.forward(plan, lambda _: right)
        self.bytes.run(plan)
        kept = outcome[NAME][0]
        inputs = [PostprocessInput(NAME, 0, scheduled, computed, drafts, kept, column, MAMBA)]
        counts = self.meaning.postprocess(inputs)
        sampled = {NAME: kept if row.samples else 0}
        self.bytes.end(plan, inputs, sampled, counts)
        self.kept.add(plan, inputs, sampled)
        self.column, self.accepted = column, counts[NAME]

    def run(self) -> None:
        self.step(0, 4)
        self.step(4, 4)
        self.step(8, 3, drafts=2, right=1)
        self.step(10, 3, drafts=2, right=2)
        self.step(13, 3, drafts=2, right=2)
        self.bytes.finish()
        self.kept.finish()


@pytest.fixture(scope="module")
def builtin() -> Kernels:
    return Kernels(KernelChoice("builtin", "native"))


@pytest.mark.parametrize("runner", ["V1", "V2"])
@pytest.mark.parametrize("limit", [16, 15], ids=["SD", "DS"])
@pytest.mark.parametrize("blocks", [23, 24], ids=["blocks outermost", "layers outermost"])
def test_real_kernels_agree_with_the_symbolic_device(builtin: Kernels, runner: str, limit: int, blocks: int) -> None:
    scenario = Scenario(builtin, config(runner, length_limit=limit, num_blocks=blocks))
    scenario.run()
    counters = Counter(scenario.meaning.counters)
    assert counters["byte comparisons"] == 10
    assert counters["kernel launches"] == 5 * (2 if runner == "V1" else 4)
    assert counters["postprocess moves"] >= 2


@pytest.mark.parametrize("runner", ["V1", "V2"])
@pytest.mark.parametrize(
    ("mutation", "kinds"),
    [
        ("lost-reset", {"count-differs"}),
        ("conv-shift-off-by-one", {"bytes-differ"}),
        ("temporal-size", {"out-of-bounds"}),
        ("wrong-destination", {"bytes-differ", "out-of-bounds"}),
    ],
)
def test_faults_of_kernels_show_in_the_bytes(runner: str, mutation: str, kinds: set[str]) -> None:
    scenario = Scenario(Kernels(KernelChoice(f"builtin+{mutation}", "native")), config(runner))
    with pytest.raises(ViolationFound) as found:
        scenario.run()
    assert found.value.violation.kind in kinds


def test_a_kernel_that_gets_another_column_is_found(builtin: Kernels) -> None:
    scenario = Scenario(builtin, config("V1"))
    scenario.step(0, 4)
    with pytest.raises(ViolationFound) as found:
        scenario.step(4, 4, wrong_source=2)
    violation = found.value.violation
    assert (violation.kind, violation.request, violation.column, violation.block) == ("bytes-differ", NAME, 1, 2)


@pytest.mark.parametrize("runner", ["V1", "V2"])
def test_a_scenario_becomes_reachable_kernel_cases(builtin: Kernels, runner: str) -> None:
    scenario = Scenario(builtin, config(runner))
    scenario.run()
    assert len(scenario.cases) == 2
    session = Session(builtin.target, builtin.executor)
    moves = 0
    for case in scenario.cases:
        assert decode_case(encode_case(case)) == case
        require_reachable(case)
        outcome = session.check(case)
        assert {verdict.status for verdict in outcome.verdicts} == {"pass"}
        moves += sum(verdict.moves for verdict in outcome.verdicts)
    assert moves == 4 * (scenario.meaning.counters["precopy moves"] + scenario.meaning.counters["postprocess moves"])

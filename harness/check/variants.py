"""Running a variant of a case for a relation. The variant says how memory is prepared, whether it needs a separate
context, and whether the memory oracle judges it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.case import operation_name
from harness.case.case import Poison
from harness.check.judging import OURS, SKIPPING, judge, verdict_on_exception
from harness.check.operation_run import Task
from harness.check.operations.registry import expect, handling
from harness.check.outcome import WITHIN, Evidence, Seconds, Signature
from harness.check.workbench import Workbench
from harness.kernels.targets.base import Target
from harness.memory import Image, MemoryPlan
from harness.oracles.relations.base import CaseVariant, Run, RunStep


class VariantRefused(Exception):
    """The target rejects a variant of a total case, with its own error: a skip."""


class VariantFailed(Exception):
    """A variant failed an ordinary check, independent of the first run."""

    def __init__(self, signature: Signature, evidence: Evidence) -> None:
        super().__init__(evidence.summary)
        self.signature, self.evidence = signature, evidence


def run_variant(
    bench: Workbench, on_operation: Callable[[str], None], variant: CaseVariant, earlier: Sequence[Run], relation: str
) -> Run:
    """Run a variant for a relation; `earlier` are those run before it. `on_operation` gets the name of each operation
    before it runs.

    Raises VariantFailed, VariantRefused, TargetLacks, OutsideContract or ExecutorCannot, and InvalidCase if the variant
    needs more memory than a case may.
    """
    case, target = variant.case, bench.target
    if variant.temporal_tiles is not None:
        target = target.with_temporal_tiles(variant.temporal_tiles)
    plan, image = bench.lay_out(case, variant, earlier)
    if variant.fresh or target is not bench.target:
        bench.unbind()
    steps: list[RunStep] = []
    launches = 0
    try:
        for index in range(len(case.program)):
            on_operation(f"{operation_name(case.program[index])}{WITHIN}{relation}")
            before = steps[-1].image if steps else image
            steps.append(_step(bench, target, variant, plan, index, before))
            launches += bench.executor.launches
    except BaseException:
        bench.unbind()
        raise
    if target is not bench.target:
        bench.unbind()
    return Run(case, plan, image, steps, launches)


def _step(
    bench: Workbench, target: Target, variant: CaseVariant, plan: MemoryPlan, index: int, before: Image
) -> RunStep:
    case = variant.case
    bench.load(case, plan, index, before)
    by_harness = handling(case.program[index]).by_harness
    expected = expect(case, plan, index, before) if variant.judged or by_harness else None
    if by_harness and variant.amend is not None:
        assert expected is not None
        variant.amend(index, plan, expected.image)
    task = Task(case, plan, index, before, expected)
    poison: Poison = "B" if variant.fresh else "A"
    try:
        run = bench.run(task, Seconds(), target, poison)
    except SKIPPING:
        raise
    except OURS:
        raise
    except Exception as error:
        bench.end_with_the_device(error)
        verdict = verdict_on_exception(
            task, bench.target, bench.executor.launches, error, lambda: bench.has_changed(task)
        )
        if verdict.signature is None or verdict.evidence is None:
            raise VariantRefused(verdict.detail) from error
        raise VariantFailed(verdict.signature, verdict.evidence) from error
    failure = judge(run)
    if failure is not None:
        raise VariantFailed(*failure)
    results = {name: dict(enumerate(values.tolist())) for name, values in run.seen.after.items()}
    return RunStep(run.found, results, expected)

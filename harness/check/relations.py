"""Checking a relation: run the variants of a case that has passed, and compare the results.

Anything that goes wrong in a variant is the relation's finding, with the relation as its oracle: an access fault, a
crash or an exception as well as results that do not correspond.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from harness.case import InvalidCase, operation_name
from harness.check.evidence import SHOWN_BYTES, SHOWN_DIFFERENCES, rank, signature_at
from harness.check.outcome import RELATION, Difference, Evidence, Signature, SkipReason, Status, Verdict
from harness.check.variants import VariantFailed, VariantRefused
from harness.kernels.executors.base import ExecutorCannot
from harness.kernels.targets.base import OutsideContract, TargetLacks
from harness.memory import describe
from harness.oracles.relations.base import CaseVariant, Mismatch, Relation, ResultMismatch, Run, Undefined
from harness.oracles.relations.registry import relation

EXAMINED_MISMATCHES = 1000

replace = msgspec.structs.replace

Execute = Callable[[CaseVariant, Sequence[Run], str], Run]
"""Runs a variant for the relation of a name, given the variants run before it (harness.check.variants)."""


def ask_relations(execute: Execute, first: Run, names: Sequence[str], most: int | None) -> tuple[Verdict, ...]:
    """Check relations in turn, until one is violated or `most` of them applied (None: all are checked).

    Raises HarnessError if an exception in a variant is not the target's, and any other exception that is not a verdict.
    """
    verdicts: list[Verdict] = []
    answers = 0
    for name in names:
        verdict = _Asking(execute, first, relation(name)).verdict()
        verdicts.append(verdict)
        answers += verdict.status != "skip"
        if verdict.status == "fail" or answers == most:
            break
    return tuple(verdicts)


class _Asking:
    """One relation and one case."""

    def __init__(self, execute: Execute, first: Run, asked: Relation) -> None:
        self._execute = execute
        self._first = first
        self._asked = asked
        self._variants: Sequence[CaseVariant] = ()
        self._others: list[Run] = []

    def verdict(self) -> Verdict:
        try:
            if any(step.expected is not None and step.expected.raises is not None for step in self._first.steps):
                raise Undefined("an operation of the program has to fail")
            self._variants = self._asked.variants(self._first)
            for variant in self._variants:
                self._others.append(self._execute(variant, self._others, self._asked.name))
        except (Undefined, InvalidCase) as error:  # InvalidCase: a variant needs more memory than a case may
            return self._skip("relation-undefined", error)
        except TargetLacks as error:
            return self._skip("lacks-operation", error)
        except OutsideContract as error:
            return self._skip("outside-contract", error)
        except ExecutorCannot as error:
            return self._skip("executor-cannot", error)
        except VariantRefused as error:
            return self._skip("outside-contract", error)
        except VariantFailed as failed:
            return self._fail(failed.signature, failed.evidence)
        mismatches = list(itertools.islice(self._asked.mismatches(self._first, self._others), EXAMINED_MISMATCHES))
        if mismatches:
            return self._fail(*self._evidence(mismatches))
        return self._verdict(operation_name(self._first.case.program[0]), "pass")

    def _verdict(self, operation: str, status: Status, **rest: Any) -> Verdict:
        launches = sum(run.launches for run in self._others)
        return Verdict(operation, status, launches=launches, relation=self._asked.name, **rest)

    def _skip(self, reason: SkipReason, error: Exception) -> Verdict:
        return self._verdict(operation_name(self._first.case.program[0]), "skip", reason=reason, detail=str(error))

    def _fail(self, signature: Signature, evidence: Evidence) -> Verdict:
        signature = replace(signature, oracle=RELATION + self._asked.name)
        summary = f"not the same {self._asked.summary}{self._which(len(self._others))}: {evidence.summary}"
        return self._verdict(
            signature.operation, "fail", signature=signature, evidence=replace(evidence, summary=summary)
        )

    def _which(self, variant: int) -> str:
        """The number of the variant in brackets, if there are several."""
        count = len(self._variants)
        return f" (run {variant + 1} of {count})" if count > 1 and variant < count else ""

    def _evidence(self, mismatches: Sequence[Mismatch | ResultMismatch]) -> tuple[Signature, Evidence]:
        runs = [mismatch for mismatch in mismatches if isinstance(mismatch, Mismatch)]
        if not runs:
            return self._result_evidence([item for item in mismatches if isinstance(item, ResultMismatch)])
        described = sorted(((self._difference(mismatch), mismatch) for mismatch in runs), key=_gravest)
        difference, gravest = described[0]
        oracle = RELATION + self._asked.name
        signature = signature_at(self._first.case, gravest.step, oracle, "differs", difference.object)
        summary = (
            f"{difference.place} holds {difference.expected} in the first run and {difference.found}"
            f" in the other{self._which(gravest.variant)}"
        )
        shown = tuple(difference for difference, _ in described[:SHOWN_DIFFERENCES])
        return signature, Evidence(summary, shown, sum(mismatch.size for mismatch in runs))

    def _result_evidence(self, results: Sequence[ResultMismatch]) -> tuple[Signature, Evidence]:
        first = results[0]
        oracle = RELATION + self._asked.name
        signature = signature_at(self._first.case, first.step, oracle, "result-differs", first.name)
        described = [
            f"{result.name}[{result.entry}] is {result.value} in the first run and {result.variant_value} in the "
            f"other{self._which(result.variant)}"
            for result in results
        ]
        return signature, Evidence(described[0], (), 0, tuple(described[:SHOWN_DIFFERENCES]))

    def _difference(self, mismatch: Mismatch) -> Difference:
        """`expected` is what the first run holds, `found` what the variant holds."""
        first, other = self._first, self._others[mismatch.variant]
        place = describe(first.case, first.plan, mismatch.offset)
        shown = min(mismatch.size, SHOWN_BYTES)
        expected = first.steps[mismatch.step].image.view(mismatch.offset, shown)
        found = other.steps[mismatch.variant_step].image.view(mismatch.variant_offset, shown)
        return Difference(
            violation="differs",
            object=place.kind,
            place=place.name,
            offset=mismatch.offset,
            size=mismatch.size,
            before=first.before.view(mismatch.offset, shown).tobytes().hex(" "),
            expected=expected.tobytes().hex(" "),
            found=found.tobytes().hex(" "),
        )


def _gravest(described: tuple[Difference, Mismatch]) -> tuple[int, int, int]:
    difference, mismatch = described
    return (mismatch.step, rank(difference.object), difference.offset)

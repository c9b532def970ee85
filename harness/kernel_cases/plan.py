"""How a finding of a kernel case is shrunk: what counts as the same finding.

"The same" is the same signature and, for a reachable finding, a case that is still reachable. The kind of state and its
layout are part of the signature: a smaller case with another kind may have another cause, and is another finding."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.case import Case, decode_case, encode_case
from harness.check.outcome import Outcome, Signature
from harness.generators.reachability import require_reachable
from harness.kernel_cases.recipe import JudgedCase
from harness.shrink.cases.passes import PASSES
from harness.shrink.cases.size import Size, size
from harness.shrink.driver import Judged
from harness.shrink.proposals import Pass
from harness.worker.memory import MEMORY_LIMIT


class CasePlan:
    """Shrinks cases that fail with a signature. `judge` judges a candidate, and raises InvalidCase if it is outside the
    preconditions."""

    passes: Sequence[Pass[Case]] = PASSES

    def __init__(self, signature: Signature, judge: Callable[[Case], Outcome]) -> None:
        self._signature, self._judge = signature, judge

    def encode(self, case: Case) -> bytes:
        return encode_case(case)

    def size(self, case: Case) -> Size:
        return size(case)

    def require_valid(self, case: Case) -> None:
        if case.domain == "reachable":
            require_reachable(case)
        decode_case(encode_case(case))  # bounds of numbers are checked only when decoding

    def judge(self, case: Case) -> Judged[JudgedCase]:
        result = JudgedCase(self._judge(case))
        found = result.outcome.signature
        if found is None:
            return Judged(result, same=False)
        same = found == self._signature
        return Judged(
            result, same=same, other=None if same else str(found), hung=found.violation in ("hang", MEMORY_LIMIT)
        )

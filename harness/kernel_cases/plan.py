"""How a finding of a kernel case is shrunk: what counts as the same finding.

"The same" is the same signature and, for a reachable finding, a case that is still reachable. The kind of state in a
race is often arbitrary: if the same operation races in the same way with a simpler kind of state, the finding gets the
signature with that kind, so that one race is one finding. A race that only one kind shows keeps it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from harness.case import Case, decode_case, encode_case
from harness.check.outcome import Outcome, Signature
from harness.generators.reachability import require_reachable
from harness.kernel_cases.recipe import JudgedCase
from harness.shrink.cases.passes import PASSES, REPLACING
from harness.shrink.cases.size import Size, size
from harness.shrink.driver import Judged
from harness.shrink.proposals import Pass

RACING_STATES = (("temporal", "-"), ("conv", "SD"), ("conv", "DS"))
"""Kinds of states in signatures of races, the simplest first."""


def is_simpler(race: Signature, other: Signature) -> bool:
    """Whether two signatures are the same race, the first in a simpler kind of state."""
    states = [(signature.object, signature.conv_layout) for signature in (race, other)]
    if race.oracle != "race" or not all(state in RACING_STATES for state in states):
        return False
    same = msgspec.structs.replace(race, object=other.object, conv_layout=other.conv_layout) == other
    return same and RACING_STATES.index(states[0]) < RACING_STATES.index(states[1])


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

    def judge(self, case: Case, proposed_by: Pass[Case]) -> Judged[JudgedCase]:
        result = JudgedCase(self._judge(case))
        found = result.outcome.signature
        if found is None:
            return Judged(result, same=False)
        if found == self._signature or (proposed_by in REPLACING and is_simpler(found, self._signature)):
            self._signature = found
            return Judged(result, same=True, hung=found.violation == "hang")
        other = None if is_simpler(self._signature, found) else str(found)
        return Judged(result, same=False, other=other, hung=found.violation == "hang")

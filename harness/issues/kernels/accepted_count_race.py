"""accepted-count-race: the V2 postprocess resets an accepted count that programs of other states have yet to read."""

from __future__ import annotations

from harness.case import Case, Postprocess
from harness.check.outcome import Signature
from harness.issues.kernel_issue import KernelIssue


def _shows(signature: Signature, case: Case) -> bool:
    """In V2 launches alone: the V1 form of the same launch, which the relation compares with, is right. A race shows
    whatever was accepted, wrong bytes only where accepted drafts are lost."""
    if signature.operation != "postprocess":
        return False
    if signature.relation == "identity-mapping":
        return True
    launched = [one for one in case.program if isinstance(one, Postprocess) and one.runner == "V2"]
    if signature.oracle == "race":
        return bool(launched) and (signature.violation, signature.object) == ("between-programs", "accepted")
    loses = any(row.accepted > 1 for one in launched for row in one.rows)
    return loses and (signature.oracle, signature.violation) == ("memory", "wrong-bytes")


ISSUE = KernelIssue(
    name="accepted-count-race",
    summary="the V2 postprocess reads an accepted count that it has already reset (F1)",
    report="https://github.com/vllm-project/vllm/pull/50432",
    since="0.25.0",
    until="0.28.0",
    shows=_shows,
    families=("count after reset",),
)

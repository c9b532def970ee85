"""accepted-count-race: the V2 postprocess resets an accepted count that programs of other states have yet to read."""

from __future__ import annotations

from harness.case import Case, Postprocess
from harness.check.outcome import Signature
from harness.issues.kernel_issue import KernelIssue, seen_by_relation


def _shows(signature: Signature, case: Case) -> bool:
    """Only where a V2 request has several states, and accepted drafts to lose. The relation compares with the V1 form
    of the same launch, which is right."""
    if signature.operation != "postprocess":
        return False
    if seen_by_relation(signature, "identity-mapping"):
        return True
    launched = [operation for operation in case.program if isinstance(operation, Postprocess)]
    if not any(one.runner == "V2" and any(row.accepted > 1 for row in one.rows) for one in launched):
        return False
    if signature.oracle == "race":
        return (signature.violation, signature.object) == ("between-programs", "accepted")
    return (signature.oracle, signature.violation) == ("memory", "wrong-bytes")


ISSUE = KernelIssue(
    name="accepted-count-race",
    summary="the V2 postprocess reads an accepted count that it has already reset (F1)",
    report="https://github.com/vllm-project/vllm/pull/50432",
    since="0.25.0",
    until="0.28.0",
    shows=_shows,
)

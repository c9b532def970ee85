"""A known issue of kernels is recognised by its releases, by the signature of a finding, and by the case that shows it.

It has no fix, so nothing proves that it is the cause: the finding looks like it, in a release that has it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from packaging.version import InvalidVersion

from harness.case import Case
from harness.check.outcome import Diagnosis, Signature
from harness.issues.known_issue import KnownIssue

ANOTHER_CAUSE = "the diagnosis names another cause"

_RELEASE = "vllm=="


@dataclasses.dataclass(frozen=True, kw_only=True)
class KernelIssue(KnownIssue):
    """`shows` says whether a finding with this signature and case looks like the issue. `of` is the issue whose fault
    it is too, in other releases; None: it has a fault of its own. `families` are those of the deviations
    (`harness.oracles.diagnosis`) that a diagnosis of it names; none if it is no matter of a diagnosis."""

    shows: Callable[[Signature, Case], bool]
    of: str | None = None
    families: tuple[str, ...] = ()

    def doubt(self, diagnosis: Diagnosis | None) -> str:
        """What a diagnosis, or the lack of one, says against this issue as the cause, in words; empty if nothing."""
        named = () if diagnosis is None else diagnosis.families
        if not self.families or set(self.families) & set(named):
            return ""
        return ANOTHER_CAUSE if named else "no diagnosis confirms it"

    @property
    def fault(self) -> str:
        """The name of the fault that it shows."""
        return self.of or self.name

    def is_in(self, target: str) -> bool:
        """Whether a target is a release that has it. Of a checkout, an installed vLLM or planted faults nothing is
        known: there a finding may be new however much it looks like an old one."""
        version = target.removeprefix(_RELEASE)
        if version == target or "+" in version:
            return False
        try:
            return self.is_in_release(version)
        except InvalidVersion:
            return False


def raises(signature: Signature, *types: str) -> bool:
    """Whether the target raised an exception of one of these types, in the case itself or in a relation's variant."""
    return signature.violation in types and (signature.oracle == "exception" or signature.relation is not None)


def is_dim_first(signature: Signature, case: Case) -> bool:
    """Whether conv windows were in DS layout in the run that failed."""
    return (case.layout.conv_layout == "DS") != (signature.relation == "conv-layouts")

"""A known issue of kernels is recognised by its releases, by the signature of a finding, and by the case that shows it.

It has no fix, so nothing proves that it is the cause: it is what a finding looks like, in a release that has it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from packaging.specifiers import SpecifierSet

from harness.case import Case
from harness.check.outcome import Signature
from harness.issues.known_issue import KnownIssue

_RELEASE = "vllm=="


@dataclasses.dataclass(frozen=True, kw_only=True)
class KernelIssue(KnownIssue):
    """`shows` says whether a finding of this signature, in this case, is what the issue looks like."""

    shows: Callable[[Signature, Case], bool]

    def may_be_in(self, target: str) -> bool:
        """Whether a target may have it: a release that has it, or a checkout or an installed vLLM, whose version is
        not known here. A target with planted mutations is none of vLLM's."""
        if target.startswith(_RELEASE):
            version = target.removeprefix(_RELEASE)
            return "+" not in version and SpecifierSet(self.releases, prereleases=True).contains(version)
        return target == "vllm" or (target.startswith("path:") and "+" not in target)


def seen_by_relation(signature: Signature, *names: str) -> bool:
    """Whether a relation between runs showed it, one of these."""
    return signature.relation in names

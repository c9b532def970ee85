"""A known issue of kernels is recognised by its releases, by the signature of a finding, and by the case that shows it.

It has no fix, so nothing proves that it is the cause: the finding looks like it, in a release that has it.
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
    """`shows` says whether a finding with this signature and case looks like the issue."""

    shows: Callable[[Signature, Case], bool]

    def may_be_in(self, target: str) -> bool:
        """Whether a target may have it: a release that has it, or a checkout or an installed vLLM, whose version is
        not known here. A target with planted mutations does not count as vLLM."""
        if target.startswith(_RELEASE):
            version = target.removeprefix(_RELEASE)
            return "+" not in version and SpecifierSet(self.releases, prereleases=True).contains(version)
        return target == "vllm" or (target.startswith("path:") and "+" not in target)


def seen_by_relation(signature: Signature, *names: str) -> bool:
    """Whether one of these relations between runs showed it."""
    return signature.relation in names

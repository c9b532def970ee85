"""A known issue is a fault of released code that is already documented, under one name.

One known issue hides the next, and a campaign that stops at the same place every time tests nothing. So each has a file
here, and a finding says which known issue it is.
"""

from __future__ import annotations

import dataclasses

from packaging.specifiers import SpecifierSet
from packaging.version import Version

REGRESSION = "REGRESSION of"
"""Before the name of an issue that the base release of a target does not have, and the target does."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class KnownIssue:
    """`since` is the first release in which a run showed the issue, `until` the first one without it (None: no release
    is known to be without it); the file of an issue says so where they were read, not run. `report` is where to read
    about it: a public report, or a file of the project."""

    name: str
    summary: str
    report: str
    since: str
    until: str | None

    @property
    def releases(self) -> str:
        """The releases that have it, as an expression of versions: `>=0.25.0,<0.28.0`."""
        return f">={self.since}" + (f",<{self.until}" if self.until else "")

    def is_in_release(self, version: str) -> bool:
        """Whether a release is among those that have it. Raises InvalidVersion."""
        return SpecifierSet(self.releases, prereleases=True).contains(Version(version))

    def is_fixed_in(self, version: str) -> bool:
        """Whether a release came after all that have it. `since` is only where it was seen first: older releases than
        that may have it, too."""
        return self.until is not None and Version(version) >= Version(self.until)

    def regression_line(self, base: object) -> str:
        """The line about it that is shown with a finding on a target whose `base` release does not have it."""
        return f"{REGRESSION} {self.line}; {base} does not have it"

    @property
    def line(self) -> str:
        """The line about it that is shown with a finding."""
        return f"{self.name}: {self.summary} ({self.report})"

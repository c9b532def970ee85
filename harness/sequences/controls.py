"""Controls are the changes that a run makes to the release: planted faults, and fixes of known issues.

A fix removes one issue, to show that it is the only cause of a violation: a violation counts as a finding only after
the same events were run with the suspect rule changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from harness.case.problem import InvalidCase
from harness.issues.change import Change
from harness.issues.registry import DEFAULT_FIXES, SEQUENCE_ISSUES, current_name
from harness.kernels.targets.vllm.scheduling.rules import RunnerRules
from harness.sequences.faults import FAULTS
from harness.suggestions import unknown


class Controls(msgspec.Struct, frozen=True, kw_only=True):
    """`faults` by name, `fixes` by the names of their issues; earlier names of fixes are accepted as well. A run
    narrows the fixes to those that its case can need. With `check_entries` off, poisoned cache entries are found only
    when they are read.

    Raises InvalidCase for a name that does not exist.
    """

    faults: tuple[str, ...] = ()
    fixes: tuple[str, ...] = ()
    check_entries: bool = True

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "fixes", tuple(dict.fromkeys(map(current_name, self.fixes))))
        msgspec.structs.force_setattr(self, "faults", tuple(dict.fromkeys(self.faults)))
        for kind, names, known in (("fault", self.faults, FAULTS), ("fix", self.fixes, DEFAULT_FIXES)):
            for name in names:
                if name not in known:
                    raise InvalidCase(unknown(kind, [name], known))

    def changes(self) -> Iterator[Change]:
        """All changes, in the order in which they are made: no fix undoes a planted fault."""
        yield from (issue.change for issue in SEQUENCE_ISSUES if issue.name in self.fixes)
        yield from (FAULTS[name].change for name in self.faults)

    def rules(self, rules: RunnerRules) -> RunnerRules:
        """The rules for a runner, made from those of its release."""
        for change in self.changes():
            rules = change.rules(rules)
        return rules

    def change_engine(self, engine: Any) -> None:
        """Change one engine."""
        for change in self.changes():
            change.engine(engine)

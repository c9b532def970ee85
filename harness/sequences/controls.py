"""Controls are the changes that a run makes to what it drives: planted faults, and fixes of known issues.

A fix takes one issue out, to show that it is the only cause of a violation: a finding is not one before the same events
were run with the suspect rule changed.
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
    """`faults` by name, `fixes` by the names of their issues; the names that fixes once had are taken as well. A run
    narrows the fixes to those that its case can need. `check_entries` off leaves poisoned cache entries to whoever
    reads them.

    Raises InvalidCase for a name that does not exist.
    """

    faults: tuple[str, ...] = ()
    fixes: tuple[str, ...] = ()
    check_entries: bool = True

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "fixes", tuple(map(current_name, self.fixes)))
        for kind, names, known in (("fault", self.faults, FAULTS), ("fix", self.fixes, DEFAULT_FIXES)):
            for name in names:
                if name not in known:
                    raise InvalidCase(unknown(kind, [name], known))

    def changes(self) -> Iterator[Change]:
        """Faults first: fixes are made of what they leave."""
        yield from (FAULTS[name].change for name in self.faults)
        yield from (issue.change for issue in SEQUENCE_ISSUES if issue.name in self.fixes)

    def rules(self, rules: RunnerRules) -> RunnerRules:
        """The rules to give to a runner, made from those of its release."""
        # A planted mistake stands whatever is fixed.
        for change in reversed(list(self.changes())):
            rules = change.rules(rules)
        return rules

    def change_engine(self, engine: Any) -> None:
        """Change one engine."""
        for change in self.changes():
            change.engine(engine)

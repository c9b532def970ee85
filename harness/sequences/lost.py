"""What step sequences have lost in a checkout: those of a runner, those that need a fix which cannot act, and places of
rules.

Each is because of a name that the base release has. It is known once the checkout is loaded.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType

from harness.case.operations import Runner
from harness.case.sequence import SequenceCase
from harness.issues.registry import SEQUENCE_ISSUES
from harness.issues.sequence_issue import SequenceIssue
from harness.kernels.targets.vllm.scheduling.loading import base_source, has_base
from harness.kernels.targets.vllm.scheduling.needed import OF_ALL, OF_RUNNER, LostName, Name, lost_names
from harness.kernels.targets.vllm.scheduling.recognised import RecognisedRule
from harness.kernels.targets.vllm.scheduling.release_source import file_of
from harness.kernels.targets.vllm.scheduling.rules_v1 import RULES as RULES_V1
from harness.kernels.targets.vllm.scheduling.rules_v2 import RULES as RULES_V2

_RULES: Mapping[Runner, Sequence[RecognisedRule]] = {"V1": RULES_V1, "V2": RULES_V2}

LOST = "LOST"
"""Before a reason why a sequence could not run: in a checkout that is not a gap of an old release, but a loss."""


@functools.cache
def _lost() -> Mapping[Name, LostName]:
    patched = (name for issue in SEQUENCE_ISSUES for name in issue.patches)
    read = (Name(*rule.place) for rules in _RULES.values() for rule in rules)
    every = dict.fromkeys([*OF_ALL, *OF_RUNNER["V1"], *OF_RUNNER["V2"], *patched, *read])
    return {lost.name: lost for lost in lost_names(every)}


def lost_of(runner: Runner) -> str | None:
    """Why sequences of a runner cannot run; None if they can."""
    found = [_lost()[name].why for name in (*OF_ALL, *OF_RUNNER[runner]) if name in _lost()]
    return f"{LOST} sequences of {runner}: {'; '.join(found)}" if found else None


def lost_fixes() -> frozenset[str]:
    """Fixes that have nothing to act on."""
    return frozenset(issue.name for issue in SEQUENCE_ISSUES if _lost_fix(issue) is not None)


def lost_with_fixes(case: SequenceCase, fixes: Sequence[str]) -> str | None:
    """Why a sequence says nothing with these fixes on; None if it does. It can reach an issue of the base release whose
    fix cannot act, and would show that as something new."""
    reached = (issue for issue in SEQUENCE_ISSUES if issue.name in fixes and issue.reached_by(case))
    return next((f"{LOST} {line}" for issue in reached if (line := _lost_fix(issue)) is not None), None)


def _lost_fix(issue: SequenceIssue) -> str | None:
    """Why the fix of an issue cannot act; None if it can."""
    found = [_lost()[name].why for name in issue.patches if name in _lost()]
    return f"sequences that need the fix of {issue.name}: {'; '.join(found)}" if found else None


def _lost_rules(runner: Runner) -> Iterator[str]:
    """A line for each place where a rule was read and is not any more: the model plays that of the base release. Where
    no sequence can run without it, that has been said."""
    by_place: dict[Name, list[str]] = {}
    for rule in _RULES[runner]:
        by_place.setdefault(Name(*rule.place), []).append(rule.field)
    for name, fields in by_place.items():
        if name in _lost() and name not in (*OF_ALL, *OF_RUNNER[runner]):
            yield f"rules of {runner} ({', '.join(fields)}): {_lost()[name].why}"


def lost_attribute(error: AttributeError) -> str | None:
    """Why a sequence could not run in which our code looked up a name that a checkout does not have; None if the object
    is not vLLM's, or if a release is loaded: then the mistake is ours."""
    holder = error.obj
    kind = holder if isinstance(holder, type | ModuleType) else type(holder)
    module = kind.__name__ if isinstance(kind, ModuleType) else kind.__module__
    if not has_base() or not module.startswith("vllm."):
        return None
    name = error.name if isinstance(kind, ModuleType) else f"{kind.__qualname__}.{error.name}"
    return f"{LOST} sequences: looked for {name} in {file_of(module)}, as in {base_source().origin}"


def lost_lines(fixes: Sequence[str]) -> Iterator[str]:
    """A line for all that is lost in a campaign with these fixes."""
    for runner in OF_RUNNER:
        if (line := lost_of(runner)) is not None:
            yield line.removeprefix(f"{LOST} ")
        yield from _lost_rules(runner)
    for issue in SEQUENCE_ISSUES:
        if issue.name in fixes and (line := _lost_fix(issue)) is not None:
            yield line

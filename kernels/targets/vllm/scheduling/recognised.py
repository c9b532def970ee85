"""A recognised rule is a field of a runner's rules that a release is seen to have by its words: a parameter, a text.

The model of a runner plays the rules of the base release: an edit that changes words does not choose the rule that it
is compared with. What the loaded code itself says is read in the same way. Where they differ, an edit changed a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from harness.kernels.targets.vllm.scheduling.release_source import ReleaseSource, file_of
from harness.refusal import UnknownTarget


class Place(NamedTuple):
    """A function or a `Class.method` of a module."""

    module: str
    name: str

    def text(self, source: ReleaseSource) -> str:
        return source.text(*self)

    def parameters(self, source: ReleaseSource) -> frozenset[str]:
        return source.parameters(*self)


class RecognisedRule(NamedTuple):
    """`field` of the rules has the value that `value` reads in the function at `place`, and perhaps elsewhere."""

    field: str
    place: Place
    value: Callable[[ReleaseSource], Any]


def values_in(source: ReleaseSource, rules: Sequence[RecognisedRule]) -> dict[str, Any]:
    """The fields of the rules of a release. Raises UnknownTarget if it lacks one of the functions."""
    return {rule.field: rule.value(source) for rule in rules}


def changed_in(source: ReleaseSource, base: ReleaseSource, rules: Sequence[RecognisedRule]) -> dict[str, Any]:
    """Fields whose value in a source is another one than in its base release. A function that is gone changes none: it
    is lost, which is reported elsewhere."""
    found = {}
    for rule in rules:
        try:
            value = rule.value(source)
        except UnknownTarget:
            continue
        if value != rule.value(base):
            found[rule.field] = value
    return found


def words_about(fields: dict[str, Any], rules: Sequence[RecognisedRule], base: str) -> list[str]:
    """A line for each changed field: where it was recognised, and what the model plays."""
    return [
        f"{rule.place.name} ({file_of(rule.place.module)}) has other words than in {base} ({rule.field}): "
        f"the model plays the rule of {base}"
        for rule in rules
        if rule.field in fields
    ]

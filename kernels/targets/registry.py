"""The registry of targets turns what a user writes into a loaded target.

A target text is a name (`builtin`, `vllm==0.33.0`, `vllm`, `path:DIR`) and any number of planted faults, each after a
plus sign. Reading the text is separate from loading it, so that a command can refuse a typing mistake at once, and
its workers, which are separate processes, load.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.kernels.mutations.mutation import Mutation
from harness.kernels.mutations.registry import split_target
from harness.kernels.targets.base import Target
from harness.kernels.targets.downloading import Announce
from harness.kernels.targets.family import KnownTarget, TargetFamily
from harness.kernels.targets.vllm.family import VllmFamily
from harness.refusal import UnknownTarget
from harness.registry import added_by_others
from harness.suggestions import suggest

if TYPE_CHECKING:
    from harness.kernels.executors.base import Executor

ENTRY_POINTS = "mamba_migration_harness.targets"
"""Entry points of this group name a TargetFamily object each."""


class _BuiltinFamily:
    forms = ("builtin",)

    def claims(self, name: str) -> bool:
        return name == "builtin"

    def check(self, name: str) -> None:
        """Nothing: there is one name, and it is always available."""

    def prepare(self, name: str, announce: Announce | None) -> None:
        """Nothing."""

    def known(self) -> Iterator[KnownTarget]:
        yield KnownTarget("builtin", "the harness's own fused kernels", None)

    def load(self, name: str, mutations: Sequence[Mutation], executor: Executor) -> Target:
        from harness.kernels.targets.builtin import BuiltinTarget

        return BuiltinTarget(executor, mutations)


@functools.cache
def _families() -> tuple[TargetFamily, ...]:
    ours: tuple[TargetFamily, ...] = (_BuiltinFamily(), VllmFamily())
    return (*ours, *(family for _, family in added_by_others(ENTRY_POINTS)))


@dataclass(frozen=True)
class ParsedTarget:
    """A valid target text: the family, the name without mutations, the mutations in order."""

    text: str
    family: TargetFamily
    name: str
    mutations: tuple[Mutation, ...]


def parse(text: str) -> ParsedTarget:
    """Read a target text, without loading or downloading anything. Raises UnknownTarget, with one line."""
    name, mutations = split_target(text)
    for family in _families():
        if family.claims(name):
            family.check(name)
            return ParsedTarget(text, family, name, mutations)
    forms = ", ".join(form for family in _families() for form in family.forms)
    raise UnknownTarget(f"unknown target {name!r}{_meant(name)}; targets are written {forms}")


def plain_name(text: str) -> str:
    """The name in a target text, without planted faults. Raises UnknownTarget for a fault that there is not; whether
    the name is one of a target is not asked, so no other package is loaded."""
    return split_target(text)[0]


def _meant(name: str) -> str:
    """What an invalid target text may be meant as: a folder, a version, or a name with a typing mistake."""
    if "/" in name or os.path.isdir(os.path.expanduser(name)):
        return f"; for a checkout write 'path:{name}'"
    if re.fullmatch(r"v?\d+(\.\d+)+", name):
        return f"; for a release write 'vllm=={name.removeprefix('v')}'"
    return suggest(name, [target.name for target in known_targets() if not target.name.startswith("path:")])


def prepare(text: str, announce: Announce | None = None) -> ParsedTarget:
    """Read a target text and do what loading it needs once per machine, such as a download.

    `announce` is called with a line for the user before anything slow. Raises UnknownTarget.
    """
    parsed = parse(text)
    parsed.family.prepare(parsed.name, announce)
    return parsed


def load_target(text: str, executor: Executor) -> Target:
    """Load the target into this process, its kernels launching on `executor`.

    Raises UnknownTarget with one line if there is no such target, RuntimeError if this process already serves another
    version of vLLM.
    """
    parsed = parse(text)
    return parsed.family.load(parsed.name, parsed.mutations, executor)


def known_targets() -> list[KnownTarget]:
    """All targets that can be listed, whether or not they are available here. Imports neither torch nor triton."""
    return [target for family in _families() for target in family.known()]

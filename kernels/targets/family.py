"""A target family knows one way of writing targets and how to load what is written that way.

The registry asks families in turn. A new kind of target is a new file with a family and one line in the registry;
other packages add theirs through an entry point.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from harness.kernels.executors.base import Executor
    from harness.kernels.mutations.mutation import Mutation
    from harness.kernels.targets.base import Target
    from harness.kernels.targets.downloading import Announce


@dataclass(frozen=True)
class KnownTarget:
    """A line of `harness targets`. `unavailable` says why it cannot be used here, or is None."""

    name: str
    summary: str
    unavailable: str | None


class TargetFamily(Protocol):
    """Names here are without mutations. All methods but `load` leave torch and triton alone."""

    @property
    def forms(self) -> Sequence[str]:
        """How targets of this family are written, for messages."""

    def claims(self, name: str) -> bool:
        """Whether `name` is written in this family's way, right or wrong."""

    def check(self, name: str) -> None:
        """Raise UnknownTarget if `name` cannot be right. Quick, and without network."""

    def prepare(self, name: str, announce: Announce | None) -> None:
        """Do what takes time and needs doing once on a machine, such as a download. Raises UnknownTarget."""

    def known(self) -> Iterable[KnownTarget]:
        """The targets that can be listed."""

    def load(self, name: str, mutations: Sequence[Mutation], executor: Executor) -> Target:
        """Load it into this process. Raises UnknownTarget."""

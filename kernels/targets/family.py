"""A target family is one way of writing targets, with the code to load them.

The registry asks families in turn. To add a kind of target, add a file with a family and one line in the registry;
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
    """A line of `harness targets`. `unavailable` says why it cannot be used here; None if it can."""

    name: str
    summary: str
    unavailable: str | None


class TargetFamily(Protocol):
    """Names here are without mutations. All methods except `load` do not import torch and triton."""

    @property
    def forms(self) -> Sequence[str]:
        """How targets of this family are written, for messages."""

    def claims(self, name: str) -> bool:
        """Whether `name` is written in this family's way, valid or not."""

    def check(self, name: str) -> None:
        """Raise UnknownTarget if `name` cannot be valid. Quick, and without network access."""

    def prepare(self, name: str, announce: Announce | None) -> None:
        """Do slow things that are needed once per machine, such as a download. Raises UnknownTarget."""

    def known(self) -> Iterable[KnownTarget]:
        """The targets that can be listed."""

    def load(self, name: str, mutations: Sequence[Mutation], executor: Executor) -> Target:
        """Load the target into this process. Raises UnknownTarget."""

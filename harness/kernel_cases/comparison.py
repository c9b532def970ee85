"""A comparison of a target with its base release: what the target has lost, and which faults are its own."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from harness.kernels.targets.registry import parse
from harness.kernels.targets.vllm.base_release import BaseRelease, base_of, is_compared
from harness.kernels.targets.vllm.lost import Lost, left_operations, lost_operations, require_context
from harness.kernels.targets.vllm.sources import source_tree


class Comparison(msgspec.Struct, frozen=True):
    """`base` is None for a release and for a target that is not vLLM, and where no release is here to compare with. The
    last is `unknown`: an operation that the target lacks may be lost, unless it has `left`, as newer releases show."""

    base: BaseRelease | None = None
    lost: tuple[Lost, ...] = ()
    unknown: bool = False
    left: frozenset[str] = frozenset()

    @property
    def title(self) -> str:
        """What a title says in addition to the target: ` (vllm 0.33.0 with 3 files changed)`; nothing for a release."""
        return "" if self.base is None else f" ({self.base})"

    def reason(self, operation: str) -> str | None:
        """Why an operation is lost; None if it is not."""
        found = [lost.why for lost in self.lost if lost.operation == operation]
        return f"LOST: {'; '.join(found)}" if found else None


def compared(target: str, wanted: str | None = None, announce: Callable[[str], None] | None = None) -> Comparison:
    """The comparison of a target, whose sources are here. `wanted` is what the user says that its base release is.
    Raises UnknownTarget, or LostTarget if nothing of it can be tested."""
    name = parse(target).name
    base = base_of(name, wanted, announce)
    if not is_compared(name):
        return Comparison()
    tree = source_tree(name)
    if base is None:
        return Comparison(unknown=True, left=left_operations(tree))
    require_context(tree, base)
    return Comparison(base, lost_operations(tree, base))

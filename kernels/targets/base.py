"""A target is a system under test: code that migrates Mamba state, bound to the tensors of a case.

A target never sees a case, only what a model runner would pass to it: the static layout, tensors over the arena, and
the arrays of one call. It runs its own production entry points on them.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.refusal import UnknownTarget as UnknownTarget  # noqa: PLC0414 - most import it from here

if TYPE_CHECKING:
    import torch

    from harness.case import Layout, MovePath, Runner
    from harness.kernels.targets.arguments import (
        AcceptedArrays,
        AdvanceArrays,
        AlignedIndicesArrays,
        HostBatch,
        StagedView,
        StateMove,
    )


class TargetLacks(Exception):
    """The target has no such operation: a skip (`lacks-operation`), never a pass."""


class TargetIncomplete(Exception):
    """One of our stubs lacks something that production code needs: a fault of the harness.

    The message names what is missing.
    """


class OutsideContract(Exception):
    """The target documents that it does not support this input: a skip (`outside-contract`), never a pass.

    The message names the assertion or docstring that says so.
    """


@dataclass(frozen=True)
class LayoutTensors:
    """What a model runner owns for its lifetime.

    `states[group][layer][state]` has shape `[num_blocks, ...]` and free strides; `tables[group]` is int32
    `[table_rows, table_columns]`, one row per request slot.
    """

    states: Sequence[Sequence[Sequence[torch.Tensor]]]
    tables: Sequence[torch.Tensor]


@dataclass(frozen=True)
class PostprocessArrays:
    """Arguments of one postprocess call, int32 `[table_rows]` unless stated otherwise.

    V1: `scheduled`, `computed`, `draft` are given, in batch order; `new_computed` and `mapping` are None.
    V2: `new_computed` and `mapping` (`[num_requests]`, the target's own integer type) are given, the others are None;
    arrays are by slot.
    """

    runner: Runner
    num_requests: int
    accepted: torch.Tensor
    state_column: torch.Tensor
    scheduled: torch.Tensor | None
    computed: torch.Tensor | None
    draft: torch.Tensor | None
    new_computed: torch.Tensor | None
    mapping: torch.Tensor | None


@dataclass(frozen=True)
class PrecopyArrays:
    """Arguments of one precopy call, int32 `[table_rows]`; `mapping` as in PostprocessArrays (None: V1)."""

    runner: Runner
    num_requests: int
    destination_column: torch.Tensor
    source_column: torch.Tensor
    bias: torch.Tensor
    mapping: torch.Tensor | None


Allocate = Callable[..., "torch.Tensor"]
"""`allocate(name, shape, dtype) -> tensor`: private device memory of the target, guarded against out-of-bounds
accesses. Contents are poison: fill it."""


class Bound(abc.ABC):
    """A target bound to the tensors of one layout: the context that production creates once."""

    @property
    @abc.abstractmethod
    def accepted_out(self) -> torch.Tensor:
        """int32 `[table_rows]`: where V1 postprocess leaves the accepted counts of its batch rows."""

    @abc.abstractmethod
    def postprocess(self, arrays: PostprocessArrays) -> None:
        """Run the production entry point. Raises TargetLacks or OutsideContract."""

    @abc.abstractmethod
    def precopy(self, arrays: PrecopyArrays) -> None:
        """Run the production entry point. Raises TargetLacks or OutsideContract."""

    # Some targets lack the following, or have it only in later versions: a target that does not define one lacks it.

    def advance(self, arrays: AdvanceArrays) -> None:
        """Run the V2 runner's preparation of a step up to precopy. Raises TargetLacks."""
        raise TargetLacks("no advance")

    @property
    def aligned_out(self) -> torch.Tensor:
        """int32 `[groups, table_rows, 1 + num_spec]`: the result of aligned indices. Raises TargetLacks."""
        raise TargetLacks("no aligned indices")

    def aligned_indices(self, arrays: AlignedIndicesArrays) -> None:
        """Compute the aligned indices of a batch. Raises TargetLacks."""
        raise TargetLacks("no aligned indices")

    def scatter_accepted(self, arrays: AcceptedArrays) -> None:
        """Set each request's accepted count to what it sampled. Raises TargetLacks."""
        raise TargetLacks("no scatter of accepted counts")

    def fill_accepted(self, arrays: AcceptedArrays) -> None:
        """Set accepted counts to one number. Raises TargetLacks."""
        raise TargetLacks("no fill of accepted counts")

    @property
    def staged(self) -> Mapping[str, StagedView]:
        """Views by name: state_column, scheduled, computed and draft; source_column and bias too, where there is a
        fused precopy for V1. Raises TargetLacks."""
        raise TargetLacks("no staging")

    def stage(self, batch: HostBatch) -> None:
        """Stage what postprocess needs. Raises TargetLacks, and the target's own error for a missing column."""
        raise TargetLacks("no staging")

    def postprocess_entry(self, batch: HostBatch, accepted: torch.Tensor) -> None:
        """Postprocess a staged batch; the counts end up in `batch.accepted`. Raises TargetLacks or OutsideContract."""
        raise TargetLacks("no entry point around postprocess")

    def scalar_copy(self, batch: HostBatch, moves: Sequence[StateMove]) -> None:
        """Move states by a list of copies made on the host. Raises TargetLacks or OutsideContract."""
        raise TargetLacks("no scalar path")

    @property
    def has_fused_precopy(self) -> bool:
        """Whether the V1 runner's preprocess can move states by a kernel: it does so where there are drafts."""
        return True

    @property
    def lists_after_step(self) -> bool:
        """Whether runners list copies for the scalar path after a step, too, and not only before it."""
        return True

    @property
    def lists_with_bias(self) -> bool:
        """Whether runners list copies with a bias before a step: they do not where a kernel moves states then."""
        return True

    def preprocess(self, batch: HostBatch, path: MovePath) -> None:
        """Prepare a step: columns, accepted counts, moves. Raises TargetLacks or OutsideContract."""
        raise TargetLacks("no preprocess")

    @property
    def previous_column(self) -> StagedView:
        """Where `all_mode` stages columns. Raises TargetLacks."""
        raise TargetLacks("no bookkeeping of `all` mode")

    def all_mode(self, batch: HostBatch) -> None:
        """The bookkeeping of `all` mode before a step and after it. Raises TargetLacks."""
        raise TargetLacks("no bookkeeping of `all` mode")


class Target(abc.ABC):
    """A loaded system under test. `name` is what the user wrote, including mutations."""

    name: str
    mapping_bits: int
    """Bits of one `mapping` entry: 32 or 64, as this target's runner passes it."""

    def is_metadata(self, name: str) -> bool:
        """Whether a private buffer, given by its name, may be written only by the host: addresses, strides, tables."""
        return False

    @abc.abstractmethod
    def bind(self, layout: Layout, tensors: LayoutTensors, allocate: Allocate) -> Bound:
        """Create the target's context over these tensors.

        Raises OutsideContract if the target does not support such a layout, TargetLacks if it is older than those.
        """

    def bind_later(self, layout: Layout, tensors: LayoutTensors, allocate: Allocate) -> Bound:
        """Like `bind`, but the context is bound to the tensors when production first uses it.

        Raises TargetLacks if the target cannot do that.
        """
        raise TargetLacks(f"{self.name} binds its context when it is made")

    def with_temporal_tiles(self, tiles: int) -> Target:
        """The same target with this number of programs for each temporal copy.

        Raises TargetLacks if that is not a parameter of the code under test.
        """
        raise TargetLacks(f"the number of programs for a temporal copy is not a parameter of {self.name}")

    def owns(self, file: str) -> bool:
        """Whether `file`, named as in a traceback, is source of the code under test.

        Distinguishes exceptions of the target from those of the harness; by default every file is the target's own.
        """
        return True

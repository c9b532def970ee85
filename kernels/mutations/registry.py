"""The registry of mutations: their names, and how a user chooses them (`TARGET+NAME`).

To add one, add a file with a `MUTATION`, and a line here. Other packages add theirs through entry points of the
group `mamba_migration_harness.mutations`, each naming a Mutation.
"""

from __future__ import annotations

import os

from harness.kernels.mutations import (
    advance_resets_fresh,
    batch_row_for_slot,
    conv_shift_off_by_one,
    count_stays_behind,
    ds_as_sd,
    fills_zero,
    forgets_column,
    ignores_skip,
    indices_wrong_column,
    int32_offset,
    late_host_write,
    list_cut_short,
    lost_reset,
    missing_barrier,
    never_written,
    remembers_prefills,
    scatters_zero,
    shared_destination,
    signed_address,
    stages_too_many,
    stale_accept,
    stale_cell,
    tail_dropped,
    temporal_size,
    unordered_shift,
    wrong_destination,
    wrong_group,
)
from harness.kernels.mutations.mutation import Mutation
from harness.refusal import UnknownTarget
from harness.registry import Registry

ENTRY_POINTS = "mamba_migration_harness.mutations"

_MUTATIONS = Registry[Mutation](
    Mutation,
    "fault",
    ENTRY_POINTS,
    (
        advance_resets_fresh.MUTATION,
        batch_row_for_slot.MUTATION,
        conv_shift_off_by_one.MUTATION,
        count_stays_behind.MUTATION,
        ds_as_sd.MUTATION,
        fills_zero.MUTATION,
        forgets_column.MUTATION,
        ignores_skip.MUTATION,
        indices_wrong_column.MUTATION,
        int32_offset.MUTATION,
        late_host_write.MUTATION,
        list_cut_short.MUTATION,
        lost_reset.MUTATION,
        missing_barrier.MUTATION,
        never_written.MUTATION,
        remembers_prefills.MUTATION,
        scatters_zero.MUTATION,
        shared_destination.MUTATION,
        signed_address.MUTATION,
        stages_too_many.MUTATION,
        stale_accept.MUTATION,
        stale_cell.MUTATION,
        tail_dropped.MUTATION,
        temporal_size.MUTATION,
        unordered_shift.MUTATION,
        wrong_destination.MUTATION,
        wrong_group.MUTATION,
    ),
    UnknownTarget,
)


def mutation_names() -> tuple[str, ...]:
    """The names of all mutations, sorted. Raises UnknownTarget for an invalid entry point or a name used twice."""
    return tuple(sorted(_MUTATIONS.table))


def mutation(name: str) -> Mutation:
    """The mutation called `name`. Raises UnknownTarget, which lists the known ones."""
    return _MUTATIONS.named(name)


def split_target(text: str) -> tuple[str, tuple[Mutation, ...]]:
    """Split `TARGET+NAME+NAME` into the plain target and its mutations, in the order written.

    A plus sign inside the path of a `path:` target that exists stays part of the path. Raises UnknownTarget
    for a name that is not a mutation, or a name given twice.
    """
    base, names = text, list[str]()
    while "+" in base and not _is_directory(base):
        base, _, name = base.rpartition("+")
        names.insert(0, name)
    if len(set(names)) != len(names):
        raise UnknownTarget(f"a mutation is named twice in {text!r}")
    return base, tuple(mutation(name) for name in names)


def _is_directory(target: str) -> bool:
    kind, _, path = target.partition(":")
    return kind == "path" and os.path.isdir(os.path.expanduser(path))

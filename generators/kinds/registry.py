"""The registry of kinds: one line for each, by operation and by the name that users give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from harness.case import OPERATIONS, Op, operation_name
from harness.generators.kinds.accepted import FILL_ACCEPTED, SCATTER_ACCEPTED
from harness.generators.kinds.advance import ADVANCE
from harness.generators.kinds.aligned_indices import ALIGNED_INDICES
from harness.generators.kinds.all_mode import ALL_MODE
from harness.generators.kinds.forward import EDIT_TABLES, FORWARD
from harness.generators.kinds.kind import AnyDrawnKind, AnyKind, DrawnKind, Kind, KindName, ProgramKind
from harness.generators.kinds.migration import POSTPROCESS, PRECOPY
from harness.generators.kinds.postprocess_entry import POSTPROCESS_ENTRY
from harness.generators.kinds.preprocess import PREPROCESS
from harness.generators.kinds.scalar_copy import SCALAR_COPY
from harness.generators.kinds.stage import STAGE
from harness.generators.programs import PROGRAMS

_KINDS: tuple[AnyKind | ProgramKind, ...] = (
    POSTPROCESS,
    PRECOPY,
    ADVANCE,
    ALIGNED_INDICES,
    STAGE,
    SCALAR_COPY,
    POSTPROCESS_ENTRY,
    SCATTER_ACCEPTED,
    FILL_ACCEPTED,
    PREPROCESS,
    ALL_MODE,
    FORWARD,
    EDIT_TABLES,
    PROGRAMS,
)

KINDS: Mapping[KindName, AnyDrawnKind | ProgramKind] = {
    kind.name: kind for kind in _KINDS if isinstance(kind, DrawnKind | ProgramKind)
}
"""The kinds that users can name, in the order in which they are listed and drawn."""


def by_operation(kinds: Iterable[AnyKind]) -> Mapping[type, AnyKind]:
    """Kinds by operation. Raises TypeError if an operation has none."""
    table: dict[type, AnyKind] = {kind.operation: kind for kind in kinds}
    without = [operation_name(operation) for operation in OPERATIONS if operation not in table]
    if without:
        raise TypeError(f"operations without a kind: {', '.join(without)}")
    return table


_BY_OPERATION = by_operation(kind for kind in _KINDS if isinstance(kind, Kind))


def kind_of(operation: Op) -> Kind[Op]:
    """What is known about the class of this operation."""
    return cast(Kind[Op], _BY_OPERATION[type(operation)])

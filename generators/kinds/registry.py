"""The registry of kinds: one line for each name that users can ask for."""

from __future__ import annotations

from collections.abc import Mapping

from harness.generators.kinds.accepted import FILL_ACCEPTED, SCATTER_ACCEPTED
from harness.generators.kinds.advance import ADVANCE
from harness.generators.kinds.aligned_indices import ALIGNED_INDICES
from harness.generators.kinds.all_mode import ALL_MODE
from harness.generators.kinds.forward import FORWARD
from harness.generators.kinds.kind import Kind
from harness.generators.kinds.migration import POSTPROCESS, PRECOPY
from harness.generators.kinds.postprocess_entry import POSTPROCESS_ENTRY
from harness.generators.kinds.preprocess import PREPROCESS
from harness.generators.kinds.scalar_copy import SCALAR_COPY
from harness.generators.kinds.stage import STAGE
from harness.generators.operations import OperationName

KINDS: Mapping[OperationName, Kind] = {
    kind.name: kind
    for kind in (
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
    )
}


def kind_of(name: OperationName) -> Kind:
    """How operations of this name are drawn."""
    return KINDS[name]

"""A kernel case as the data of a script: every number written out, stale ones included."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from harness.case import Case, ConvState, Postprocess, PostprocessEntry, Precopy, Preprocess, ScalarCopy, State
from harness.export.form import NotExportable
from harness.export.kernel_script import case as script
from harness.memory import initial_image, plan_memory, stale_numbers

SUPPORTED = (Postprocess, Precopy, ScalarCopy, Preprocess, PostprocessEntry)

MOST_NUMBERS = 200_000
"""Numbers of tables and arrays that a script may hold."""


def script_case(case: Case) -> script.Case:
    """The data. Raises NotExportable for a case that no script can show."""
    for operation in case.program:
        if not isinstance(operation, SUPPORTED):
            name = operation.__struct_config__.tag
            raise NotExportable(f"a script cannot call {name} yet: it knows {', '.join(sorted(map(_tag, SUPPORTED)))}")
    if case.linked and len(case.program) > 1:
        raise NotExportable("a script cannot call several operations that share the runner's arrays")
    layout = case.layout
    numbers = len(layout.groups) * layout.table_rows * layout.table_columns + 6 * layout.table_rows * len(case.program)
    if numbers > MOST_NUMBERS:
        raise NotExportable(f"its tables and arrays are {numbers} numbers, too many for a script ({MOST_NUMBERS})")
    plan = plan_memory(case, 32)
    image = initial_image(case, plan)
    shape = (layout.table_rows, layout.table_columns)
    tables = tuple(
        image.view(start, plan.base.table_bytes).view(np.int32).reshape(shape).tolist() for start in plan.base.tables
    )
    operations = []
    for spans, operation in zip(plan.arrays, case.program, strict=True):
        arrays = {name: image.view(one.start, one.size).view(np.int32).tolist() for name, one in spans.items()}
        rows = tuple(msgspec.to_builtins(row) for row in operation.rows)
        operations.append(script.Operation(_tag(operation), operation.runner, rows, arrays, _options(case, operation)))
    return script.Case(
        domain=case.domain,
        conv_layout=layout.conv_layout,
        block_size=layout.block_size,
        num_spec=layout.num_spec,
        num_blocks=layout.num_blocks,
        buffers=tuple((buffer.size, buffer.misalignment) for buffer in layout.buffers),
        groups=tuple(
            tuple(
                script.Layer(tuple(map(_state, layer.states)), tuple(map(_state, layer.extra)))
                for layer in group.layers
            )
            for group in layout.groups
        ),
        tables=tables,
        high_addresses=case.execution.high_addresses,
        operations=tuple(operations),
    )


def _tag(operation: Any) -> str:
    return str(operation.__struct_config__.tag)


def _options(case: Case, operation: Any) -> dict[str, Any]:
    if isinstance(operation, ScalarCopy):
        return {"within_blocks": operation.within_blocks, "accepted_on_host": _on_host(case, [])}
    if isinstance(operation, Preprocess):
        absent = [msgspec.to_builtins(one) for one in operation.absent]
        counts = _on_host(case, [row.accepted for row in operation.rows])
        return {"path": operation.path, "absent": absent, "accepted_on_host": counts}
    return {"accepted_on_host": _on_host(case, [])} if isinstance(operation, PostprocessEntry) else {}


def _on_host(case: Case, counts: list[int]) -> list[int]:
    stale = stale_numbers(case.contents.payload_seed, 0, case.layout.table_rows, 1, case.layout.num_spec + 1)
    return [*counts, *(int(number) for number in stale[len(counts) :])]


def _state(state: State) -> script.State:
    item: int = state.item_size
    shape: tuple[int, ...]
    if not isinstance(state, ConvState):
        shape, strides, kind = state.shape, [item], "temporal"
        for length in reversed(state.shape[1:]):
            strides.insert(0, strides[0] * length)
    elif state.row_stride is None:
        shape, strides, kind = (state.window, state.dim), [state.dim * item, item], "conv"
    else:
        shape, strides, kind = (state.dim, state.window), [state.row_stride, item], "conv"
    return script.State(kind, item, shape, tuple(strides), state.buffer, state.offset, state.block_stride)

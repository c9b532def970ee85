"""The registry of calls: one line for each kind of operation."""

from __future__ import annotations

from collections.abc import Mapping

from harness.case import Advance, EditTables, Forward, Operation, Postprocess, Precopy
from harness.check.operations.advance import AdvanceCall
from harness.check.operations.call import Call
from harness.check.operations.forward import HarnessCall
from harness.check.operations.migration import PostprocessCall, PrecopyCall

_CALLS: Mapping[type[Operation], Call] = {
    Postprocess: PostprocessCall(),
    Precopy: PrecopyCall(),
    Advance: AdvanceCall(),
    Forward: HarnessCall(),
    EditTables: HarnessCall(),
}


def call_of(operation: Operation) -> Call:
    """How operations of this kind are called."""
    return _CALLS[type(operation)]

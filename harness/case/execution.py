"""An execution fixes for a case what a machine is free to choose: in which order the programs of a launch run.

A correct kernel does not depend on it. An execution also says what the executor watches, so that a finding that needs
an instrumented executor can be replayed. Executors that cannot choose or watch (a GPU) run in their own order.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

ProgramOrder = Literal["natural", "reversed", "shuffled"]

Warps = Literal["together", "apart"]

Check = Literal["memory", "undefined", "races", "identical-stores"]
"""What an executor may be asked to watch in addition to the bytes: `memory` (out-of-bounds accesses), `undefined`
(uninitialised values that decide something), `races`, and `identical-stores`, which belongs to `races`: stores of one
value to one byte by programs or warps that nothing orders."""

CHECKS: tuple[Check, ...] = get_args(Check)
DEFAULT_CHECKS: tuple[Check, ...] = ("memory", "undefined", "races")


class Execution(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to run a case. `seed` belongs to shuffled orders and to schedules, which differ from launch to launch.

    `interleave` is the number of programs of a launch that are in flight at a time: before each load and store, one of
    them, drawn from `seed`, continues. 0: they run one after the other. `warps` that are `apart` run independently and
    wait for each other only at barriers. `high_addresses`: addresses have their highest bit set, as on some devices.
    """

    program_order: ProgramOrder = "natural"
    seed: Annotated[int, Meta(ge=0, le=2**32 - 1)] = 0
    checks: Annotated[tuple[Check, ...], Meta(max_length=8)] = DEFAULT_CHECKS
    warps: Warps = "together"
    interleave: Annotated[int, Meta(ge=0, le=16)] = 0
    high_addresses: bool = False

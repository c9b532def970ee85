"""An execution is the freedom that a machine has and a case fixes: in which order the programs of a launch run.

A correct kernel does not notice it. It also says what the executor watches meanwhile, so that a finding that takes an
instrumented executor replays. Executors that cannot choose or watch (a GPU) run as they like.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

ProgramOrder = Literal["natural", "reversed", "shuffled"]

Warps = Literal["together", "apart"]

Check = Literal["memory", "undefined", "races", "identical-stores"]
"""What an executor may be asked to watch beside the bytes: `memory` (accesses outside what may be touched),
`undefined` (numbers that nobody defined and that decide something), `races`, and `identical-stores`, which belongs to
`races`: stores of one value to one byte by programs or warps that nothing orders."""

CHECKS: tuple[Check, ...] = get_args(Check)
DEFAULT_CHECKS: tuple[Check, ...] = ("memory", "undefined", "races")


class Execution(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to run a case. `seed` belongs to shuffled orders and to schedules, which differ from launch to launch.

    `interleave`: so many programs of a launch are under way at a time, and one of them, drawn from `seed`, goes on
    before each load and store; 0: they run one after the other. `warps` that are `apart` are under way by themselves
    and wait for each other at barriers alone. `high_addresses`: addresses have their highest bit set,
    as on some devices.
    """

    program_order: ProgramOrder = "natural"
    seed: Annotated[int, Meta(ge=0, le=2**32 - 1)] = 0
    checks: Annotated[tuple[Check, ...], Meta(max_length=8)] = DEFAULT_CHECKS
    warps: Warps = "together"
    interleave: Annotated[int, Meta(ge=0, le=16)] = 0
    high_addresses: bool = False

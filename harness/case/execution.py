"""An execution is the freedom that a machine has and a case fixes: in which order the programs of a launch run.

A correct kernel does not notice it. Executors that cannot choose (a GPU) run as they like.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

ProgramOrder = Literal["natural", "reversed", "shuffled"]


class Execution(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to run a case. `seed` belongs to the shuffled order, which differs from launch to launch."""

    program_order: ProgramOrder = "natural"
    seed: Annotated[int, Meta(ge=0, le=2**32 - 1)] = 0

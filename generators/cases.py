"""Drawing cases, from any source of choices: first a layout plan, then cases that share it.

`GENERATOR_VERSION` increases with every change of what a given stream of choices results in, so that a seed is
never mistaken for the case that another version drew from it.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.case import Case, Contents, Domain
from harness.generators.draw import Draw
from harness.generators.extents import Scale
from harness.generators.kinds.kind import KindName
from harness.generators.layouts import LayoutChoice, draw_layout
from harness.generators.reachable import draw_reachable
from harness.generators.total import draw_total

GENERATOR_VERSION = 8

__all__ = ["GENERATOR_VERSION", "KindName", "LayoutChoice", "Scale", "draw_case", "draw_layout"]


def draw_case(draw: Draw, plan: LayoutChoice, domain: Domain, operations: Sequence[KindName], scale: Scale) -> Case:
    """Draw one valid case of a domain over a planned layout.

    `operations` are those that the program may contain. `plan` must come from `draw_layout` with the same domain
    and scale. Raises ValueError if there are no operations.
    """
    if not operations:
        raise ValueError("a case needs at least one operation to draw from")
    parts = draw_reachable(draw, plan, operations) if domain == "reachable" else draw_total(draw, plan, operations)
    return Case(
        domain=domain,
        layout=plan.layout,
        contents=Contents(
            payload_seed=draw.integer(0, 2**32 - 1),
            poison=draw.choice(("A", "B")),
            tables=parts.tables,
            owners=parts.owners,
        ),
        program=parts.program,
        linked=parts.linked,
    )

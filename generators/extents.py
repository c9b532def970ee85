"""An extent is how large a layout may become: states, requests, bytes of memory, cells of tables.

Most layouts are ordinary: a few small states, so that a case takes milliseconds. The others have one property of real
models at its real size (docs/domain.md, section 6), and everything else small, as the cost of a case is mostly that of
comparing its memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.generators.draw import Draw

Scale = Literal["small", "full"]

Property = Literal["ordinary", "tiled", "crowded", "many-groups", "many-layers"]
"""What a layout has at its real size: nothing; temporal states that all programs of a copy share; hundreds of requests;
groups; layers in a group."""

_PROPERTIES: tuple[tuple[Property, int], ...] = (
    ("ordinary", 90),
    ("tiled", 6),
    ("crowded", 1),
    ("many-groups", 2),
    ("many-layers", 1),
)


@dataclass(frozen=True)
class Extent:
    """Maximum sizes. `states` is the number of states of all groups, `budget` bytes of state memory, `cells` those of
    one group's table; `roomy` allows the large ones of the ordinary states. `groups` and `layers` (of a group) are
    drawn by the layout where they are None. `spare` is how many blocks there are beyond those that requests need."""

    states: int
    requests: int
    budget: int
    roomy: bool
    cells: int
    property: Property = "ordinary"
    groups: int | None = None
    layers: int | None = None
    spare: int = 6
    most_drafts: int = 31


def draw_extent(draw: Draw, scale: Scale) -> Extent:
    """`small` ones suit executors that need milliseconds per program."""
    if scale == "small":
        roomy = draw.boolean(0.1)
        return Extent(
            states=draw.weighted(((2, 3), (1, 2), (4, 3), (3, 1))),
            requests=draw.weighted(((2, 4), (3, 3), (1, 2))),
            budget=96 * 1024 if roomy else 24 * 1024,
            roomy=roomy,
            cells=1400 if draw.boolean(0.05) else 400,
        )
    chosen = draw.weighted(_PROPERTIES)
    if chosen == "tiled":
        return Extent(
            states=draw.weighted(((2, 3), (1, 2), (4, 1))),
            requests=draw.weighted(((1, 5), (2, 1))),
            spare=2,
            budget=1280 * 1024,
            roomy=False,
            cells=3_000,
            property=chosen,
            groups=draw.weighted(((1, 3), (2, 1))),
            layers=1,
            most_drafts=3,
        )
    if chosen == "crowded":
        return Extent(
            states=2,
            requests=draw.weighted(((300, 4), (257, 2), (520, 2), (1024, 1))),
            budget=2 * 1024 * 1024,
            roomy=False,
            cells=40_000,
            property=chosen,
            groups=1,
            layers=1,
            most_drafts=3,
        )
    if chosen in ("many-groups", "many-layers"):
        most = draw.weighted(((10, 3), (30, 2), (7, 1))) if chosen == "many-groups" else draw.choice((24, 40, 72))
        return Extent(
            states=2 * most,
            requests=draw.weighted(((2, 3), (1, 2), (4, 2))),
            budget=512 * 1024,
            roomy=False,
            cells=1_000,
            property=chosen,
            groups=most if chosen == "many-groups" else draw.choice((1, 2)),
            layers=1 if chosen == "many-groups" else most,
            most_drafts=3,
        )
    large = draw.boolean(0.02)
    return Extent(
        states=draw.weighted(((4, 4), (2, 2), (8, 5), (12, 2), (1, 1))),
        requests=draw.weighted(((4, 5), (2, 3), (8, 4), (1, 1), (16, 2), (64, 1))),
        budget=4 * 1024 * 1024 if large else 160 * 1024,
        roomy=large or draw.boolean(0.5),
        cells=300_000 if large else 12_000 if draw.boolean(0.1) else 3_000,
    )

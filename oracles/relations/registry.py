"""The registry of relations: name -> relation, in the order in which reports list them.

A new one is a new file and one line here; other packages add theirs through entry points of the group
`mamba_migration_harness.relations`, each naming a Relation object.
"""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Mapping

from harness.oracles.relations.base import Relation
from harness.oracles.relations.block_names import BlockNames
from harness.oracles.relations.conv_layouts import ConvLayouts
from harness.oracles.relations.identity_mapping import IdentityMapping
from harness.oracles.relations.poison_patterns import PoisonPatterns
from harness.oracles.relations.repetition import Repetition
from harness.oracles.relations.request_order import RequestOrder
from harness.oracles.relations.scalar_path import ScalarPath
from harness.oracles.relations.single_requests import SingleRequests
from harness.oracles.relations.temporal_tiles import TemporalTiles
from harness.suggestions import unknown

ENTRY_POINTS = "mamba_migration_harness.relations"

_OURS: tuple[Relation, ...] = (
    IdentityMapping(),
    ScalarPath(),
    RequestOrder(),
    SingleRequests(),
    BlockNames(),
    TemporalTiles(),
    ConvLayouts(),
    PoisonPatterns(),
    Repetition(),
)


class UnknownRelation(ValueError):
    """A relation that does not exist. Its message is one line, and lists those that do."""


@functools.cache
def relations() -> Mapping[str, Relation]:
    """All relations by name. Raises UnknownRelation if an entry point is no relation or takes a name twice."""
    table = {relation.name: relation for relation in _OURS}
    for entry_point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        added = entry_point.load()
        if not isinstance(added, Relation):
            raise UnknownRelation(f"entry point {entry_point.name} of {ENTRY_POINTS} is not a relation")
        if added.name in table:
            raise UnknownRelation(f"two relations are called {added.name}")
        table[added.name] = added
    return table


def relation(name: str) -> Relation:
    """The relation called `name`. Raises UnknownRelation."""
    try:
        return relations()[name]
    except KeyError:
        raise UnknownRelation(unknown("relation", [name], relations())) from None

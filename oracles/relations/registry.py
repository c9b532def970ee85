"""The registry of relations: name -> relation, in the order in which reports list them.

A new one is a new file and one line here. Other packages add theirs through entry points of the group
`mamba_migration_harness.relations`, each naming a Relation object.
"""

from __future__ import annotations

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
from harness.registry import Registry

ENTRY_POINTS = "mamba_migration_harness.relations"


class UnknownRelation(ValueError):
    """The relation does not exist. The message is one line, and lists the existing ones."""


_RELATIONS = Registry[Relation](
    Relation,
    "relation",
    ENTRY_POINTS,
    (
        IdentityMapping(),
        ScalarPath(),
        RequestOrder(),
        SingleRequests(),
        BlockNames(),
        TemporalTiles(),
        ConvLayouts(),
        PoisonPatterns(),
        Repetition(),
    ),
    UnknownRelation,
)


def relations() -> Mapping[str, Relation]:
    """All relations by name. Raises UnknownRelation if an entry point is not a relation or uses a name again."""
    return _RELATIONS.table


def relation(name: str) -> Relation:
    """The relation called `name`. Raises UnknownRelation."""
    return _RELATIONS.named(name)

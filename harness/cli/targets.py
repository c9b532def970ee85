"""`harness targets`: what can be tested here."""

from __future__ import annotations

import msgspec

from harness.cli.listing import print_listing
from harness.cli.options import JsonOption


def targets(json: JsonOption = False) -> None:
    """List the systems under test and the faults that can be planted in them."""
    from harness.kernels.mutations.registry import mutation, mutation_names
    from harness.kernels.targets.registry import known_targets

    found = known_targets()
    planted = {name: mutation(name).summary for name in mutation_names()}
    if json:
        print(msgspec.json.encode({"targets": msgspec.to_builtins(found), "mutations": planted}).decode())
        return
    print("Targets")
    why = {target.name: f" (not here: {target.unavailable})" for target in found if target.unavailable is not None}
    print_listing({target.name: f"{target.summary}{why.get(target.name, '')}" for target in found})
    print("\nFaults, planted as TARGET+NAME")
    print_listing(planted)

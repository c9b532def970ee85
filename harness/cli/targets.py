"""`harness targets`: what can be tested here."""

from __future__ import annotations

import msgspec

from harness.cli.options import JsonOption


def targets(json: JsonOption = False) -> None:
    """List the systems under test and the mutations that can be planted in them."""
    from harness.kernels.mutations.registry import mutation, mutation_names
    from harness.kernels.targets.registry import known_targets

    found = known_targets()
    planted = {name: mutation(name).summary for name in mutation_names()}
    if json:
        print(msgspec.json.encode({"targets": msgspec.to_builtins(found), "mutations": planted}).decode())
        return
    print("Targets")
    for target in found:
        why = "" if target.unavailable is None else f"  (not here: {target.unavailable})"
        print(f"  {target.name:12} {target.summary}{why}")
    print("\nMutations, planted as TARGET+NAME")
    for name, summary in planted.items():
        print(f"  {name:24} {summary}")

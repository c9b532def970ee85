"""The memory of a case: one flat byte arena that holds every object between guards, and the map back from bytes.

It knows cases, but neither targets nor torch: an image is numpy bytes, which are copied to where a target runs.
"""

from harness.memory.contents import initial_image, write_arrays
from harness.memory.image import Image
from harness.memory.noise import payload_bytes, poison_bytes, stale_numbers
from harness.memory.places import Place, describe, describe_block, describe_run, state_block
from harness.memory.plan import Allocation, ArraySpan, LayoutPlan, MemoryPlan, StatePlace, plan_layout, plan_memory
from harness.memory.shadow import UNDEFINED, define_arrays, initial_shadow

__all__ = [
    "UNDEFINED",
    "Allocation",
    "ArraySpan",
    "Image",
    "LayoutPlan",
    "MemoryPlan",
    "Place",
    "StatePlace",
    "define_arrays",
    "describe",
    "describe_block",
    "describe_run",
    "initial_image",
    "initial_shadow",
    "payload_bytes",
    "plan_layout",
    "plan_memory",
    "poison_bytes",
    "stale_numbers",
    "state_block",
    "write_arrays",
]

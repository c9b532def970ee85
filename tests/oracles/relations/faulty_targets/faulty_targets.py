"""Targets with faults that one relation sees and a single run does not: the harness's own kernels, rewritten.

Written `faulty:NAME`, where NAME is one of FAULTS. A test puts this folder on PYTHONPATH; the entry point next to this
file does the rest, as for targets of any other package.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from harness.kernels.mutations.mutation import Mutation, Rewrite
from harness.kernels.targets.family import KnownTarget
from harness.refusal import UnknownTarget

if TYPE_CHECKING:
    from harness.kernels.executors.base import Executor
    from harness.kernels.targets.base import Target

FAULTS: dict[str, tuple[str, list[Rewrite]]] = {
    "mapped-bias": (
        "precopy",
        [
            Rewrite(
                "precopy_kernel",
                "bias = tl.load(biases + slot, mask=moves, other=0)",
                "bias = tl.load(biases + slot, mask=moves, other=0) * (2 if HAS_MAPPING else 1)",
            )
        ],
    ),
    "mapped-count": (
        "postprocess",
        [
            Rewrite(
                "postprocess_kernel",
                "_reset(accepted, slot, within_block, shared",
                "_reset(accepted, slot, within_block & (slot < 0), shared",
            )
        ],
    ),
    "listed-tail": ("batch_copy", [Rewrite("batch_copy_kernel", "size, tl.uint8", "size - 1, tl.uint8")]),
    "ascending-slots": (
        "precopy",
        [
            Rewrite(
                "_columns",
                "        inside = slot >= 0",
                "        inside = (slot >= 0) & (slot >= tl.load(mapping).to(tl.int32))",
            )
        ],
    ),
    "one-request": (
        "context",
        [
            Rewrite(
                "FusedContext.precopy",
                "            self._tiles_each,\n",
                "            self._tiles_each if num_requests > 1 else int(self._facts[0][TILES.value]),\n",
            )
        ],
    ),
    "ascending-blocks": (
        "copy",
        [
            Rewrite(
                "locate",
                "address + destination_block.to(tl.int64) * block_stride",
                "address + tl.maximum(source_block, destination_block).to(tl.int64) * block_stride",
            )
        ],
    ),
    "twenty-programs": (
        "moves",
        [
            Rewrite(
                "carry_out",
                "while position < total:",
                "while position < tl.where(tl.num_programs(0) == 20, total - 1, total):",
            )
        ],
    ),
    "dim-first-tail": (
        "context",
        [
            Rewrite(
                "_record",
                "        extent = (runs - 1) * run_stride + window * unit\n",
                "        extent = (runs - 1) * run_stride + window * unit\n"
                "        unit, runs, run_stride = unit * runs, 1, window * unit * runs\n",
            )
        ],
    ),
    "dim-first-memory": (
        "context",
        [
            Rewrite(
                "FusedContext.__init__",
                "        self._block_size = block_size\n",
                "        self._block_size = block_size\n        self._is_dim_first = conv_layout == 'DS'\n",
            ),
            Rewrite(
                "FusedContext.precopy",
                "        if num_requests == 0:\n",
                "        conv = [s.tensor for states in self._bound[0] for s in states if s.kind == 'conv']\n"
                "        before, self._before = getattr(self, '_before', None), [tensor.clone() for tensor in conv]\n"
                "        for tensor, old in zip(conv, before or ()) if self._is_dim_first else ():\n"
                "            tensor.copy_(old)\n"
                "        if num_requests == 0:\n",
            ),
        ],
    ),
    "unfilled-0": ("context", []),
    "unfilled-1": ("context", []),
    "memory-of-calls": (
        "context",
        [
            Rewrite(
                "FusedContext.precopy",
                "        if num_requests == 0:\n",
                "        call = [t.tolist() for t in (source_column, destination_column, bias, *self._bound[1])]\n"
                "        call.append(None if mapping is None else mapping.tolist())\n"
                "        last, self._last_call = getattr(self, '_last_call', None), call\n"
                "        if num_requests == 0 or call == last:\n",
            )
        ],
    ),
}
"""File of the fused kernels and what to rewrite in it."""

for bit in (0, 1):  # a decision based on an unwritten bit: right for one of its two values
    FAULTS[f"unfilled-{bit}"] = (
        "context",
        [
            Rewrite("FusedContext.__init__", "        self.accepted_out.zero_()\n", ""),
            Rewrite(
                "FusedContext.precopy",
                "        if num_requests == 0:\n",
                f"        if num_requests == 0 or int(self.accepted_out[0]) & 1 == {bit}:\n",
            ),
        ],
    )


def faulty(name: str) -> Mutation:
    """A fault as a mutation of the builtin target."""
    file, rewrites = FAULTS[name]
    return Mutation(name, "a fault for tests", {"builtin": {f"fused/{file}.py": [rewrites]}})


class FaultyFamily:
    forms = ("faulty:NAME",)

    def claims(self, name: str) -> bool:
        return name.startswith("faulty:")

    def check(self, name: str) -> None:
        if name.removeprefix("faulty:") not in FAULTS:
            raise UnknownTarget(f"no such fault: {name}")

    def prepare(self, name: str, announce: object) -> None:
        """Nothing."""

    def known(self) -> Iterator[KnownTarget]:
        yield KnownTarget("faulty:NAME", "faults for tests", None)

    def load(self, name: str, mutations: Sequence[Any], executor: Executor) -> Target:
        from harness.kernels.targets.builtin import BuiltinTarget

        target = BuiltinTarget(executor, [faulty(name.removeprefix("faulty:"))])
        target.name = name
        return target


FAMILY = FaultyFamily()

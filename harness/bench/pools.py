"""A pool is device memory laid out for one shape, with block tables for several independent steps.

Each step has its own blocks, so that consecutive launches touch different memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from harness.bench.shapes import ModelShape
from harness.case import ConvLayout, ConvState
from harness.case.layout import State, state_extent
from harness.kernels.targets.arguments import AcceptedArrays, AdvanceArrays
from harness.kernels.targets.base import Bound, LayoutTensors, PostprocessArrays, PrecopyArrays, Target

TABLE_ROWS = 1024
"""Request slots of a runner: vLLM's default on GPUs of this size."""

DESTINATION, RUNNING = 0, 1
"""Columns that a step of the benchmark moves to and from; speculative ones follow."""

Form = Literal["V1", "V2"]

_DTYPES = {2: torch.bfloat16, 4: torch.float32}


@dataclass(frozen=True)
class StepShape:
    """A step of `requests` requests, of which the first `movers` move. `same_block`: within their block."""

    requests: int
    movers: int
    same_block: bool = False


class Pool:
    """Memory for a shape, large enough for `copies` steps of `requests` requests that all move."""

    def __init__(
        self,
        shape: ModelShape,
        conv_layout: ConvLayout,
        requests: int,
        copies: int,
        device: torch.device,
        *,
        aligned: bool = True,
    ) -> None:
        self.shape = shape
        self.device = device
        self.moves = requests * copies
        self.blocks_each = len(shape.groups) * 3
        self.layout = shape.layout(conv_layout, 2 + requests * copies * self.blocks_each, TABLE_ROWS, aligned=aligned)
        buffer = self.layout.buffers[0]
        self._memory = torch.empty(buffer.size + 256, dtype=torch.uint8, device=device)
        even = self._memory.numel() // 8 * 8
        self._memory[:even].view(torch.int64).random_()
        start = -self._memory.data_ptr() % 256 + buffer.misalignment
        self.memory = self._memory[start : start + buffer.size]
        self.states = [
            [[self._tensor(state) for state in layer.states] for layer in group.layers] for group in self.layout.groups
        ]

    def _tensor(self, state: State) -> torch.Tensor:
        """The tensor of a state, `[num_blocks, ...]`."""
        item = state.item_size
        extent = (self.layout.num_blocks - 1) * state.block_stride + state_extent(state)
        flat = self.memory[state.offset : state.offset + extent].view(_DTYPES[item])
        inner: Sequence[int]
        if not isinstance(state, ConvState):
            inner = state.shape
        elif state.row_stride is None:
            inner = (state.window, state.dim)
        else:
            inner = (state.dim, state.window)
        # Rows of a DS window have no gaps here.
        strides = torch.empty(tuple(inner), device="meta").stride()
        return flat.as_strided((self.layout.num_blocks, *inner), (state.block_stride // item, *strides))

    def steps(self, step: StepShape, copies: int) -> list[PoolStep]:
        """Independent steps: their moving requests share no block."""
        if step.movers * copies > self.moves:
            raise ValueError(f"{copies} steps of {step.movers} moving requests do not fit a pool for {self.moves}")
        return [PoolStep(self, step, number) for number in range(copies)]


class PoolStep:
    """The arrays of one step and the tables that it reads. The biases go from 0 to the maximum that drafts allow, in
    turn."""

    def __init__(self, pool: Pool, step: StepShape, number: int) -> None:
        self.pool, self.step = pool, step
        shape, layout = pool.shape, pool.layout
        generator = torch.Generator().manual_seed(number)
        n, movers = step.requests, step.movers
        # A runner assigns slots from the last one on, and the batch is in another order.
        order = torch.randperm(n, generator=generator)
        self.slots = TABLE_ROWS - 1 - order
        moving = torch.zeros(TABLE_ROWS, dtype=torch.bool)
        moving[self.slots[:movers]] = True
        biases = torch.arange(movers) % (shape.num_spec + 1)
        if step.same_block:
            biases = biases % max(shape.num_spec, 1) + 1
        self.biases = biases
        bias = torch.zeros(TABLE_ROWS, dtype=torch.int64)
        bias[self.slots[:movers]] = biases
        blocks = 1 + number * movers * pool.blocks_each + torch.randperm(movers * pool.blocks_each, generator=generator)
        self.tables = []
        for group in range(len(shape.groups)):
            table = torch.ones((TABLE_ROWS, layout.table_columns), dtype=torch.int32)
            own = blocks[group * movers * 3 : (group + 1) * movers * 3].view(movers, 3).to(torch.int32)
            table[self.slots[:movers], DESTINATION] = own[:, 0]
            table[self.slots[:movers], RUNNING] = own[:, 1]
            table[self.slots[:movers], RUNNING + biases] = own[:, 2]
            if step.same_block:
                table[self.slots[:movers], DESTINATION + biases] = own[:, 2]
            self.tables.append(table)
        block = layout.block_size
        one = torch.ones(TABLE_ROWS, dtype=torch.int64)
        # A mover's running state ends `bias` tokens before the first block boundary; the others are far from the next.
        running = torch.where(moving, block - bias, block + 1)
        count = torch.where(moving, bias + 1, 1)
        source = torch.where(moving & torch.tensor(step.same_block), DESTINATION, RUNNING) * one
        self.by_slot = {
            "accepted": count,
            "state_column": source,
            "scheduled": one + shape.num_spec,
            "computed": running - 1,
            "draft": one * shape.num_spec,
            "new_computed": running + count - 1,
            "source_column": RUNNING * one,
            "destination_column": torch.where(moving, DESTINATION, RUNNING) * one,
            "bias": bias,
        }
        self.bytes = 2 * sum(shape.moved_bytes(int(value)) for value in biases.tolist())

    def bind(self, target: Target, form: Form) -> BoundStep:
        return BoundStep(self, target, form)


class BoundStep:
    """A step bound to a target. V1 arrays and tables are in batch order, those of V2 by slot."""

    def __init__(self, step: PoolStep, target: Target, form: Form) -> None:
        self.step, self.form = step, form
        pool, n = step.pool, step.step.requests
        order = slice(None)
        tables = step.tables
        if form == "V1":
            rest = torch.ones(TABLE_ROWS, dtype=torch.bool)
            rest[step.slots] = False
            order = torch.cat([step.slots, torch.arange(TABLE_ROWS)[rest]])  # type: ignore[assignment]
            tables = [table[order] for table in tables]
        self.arrays = {name: value[order].to(torch.int32).to(pool.device) for name, value in step.by_slot.items()}
        bits = torch.int32 if target.mapping_bits == 32 else torch.int64
        self.mapping = step.slots.to(bits).to(pool.device) if form == "V2" else None
        self.tables = [table.to(pool.device) for table in tables]
        self.bound: Bound = target.bind(pool.layout, LayoutTensors(pool.states, self.tables), self._allocate)
        arrays, two = self.arrays, form == "V2"
        self.postprocess_arrays = PostprocessArrays(
            runner=form,
            num_requests=n,
            accepted=arrays["accepted"],
            state_column=arrays["state_column"],
            scheduled=None if two else arrays["scheduled"],
            computed=None if two else arrays["computed"],
            draft=None if two else arrays["draft"],
            new_computed=arrays["new_computed"] if two else None,
            mapping=self.mapping,
        )
        self.precopy_arrays = PrecopyArrays(
            runner=form,
            num_requests=n,
            destination_column=arrays["destination_column"],
            source_column=arrays["source_column"],
            bias=arrays["bias"],
            mapping=self.mapping,
        )

    def _allocate(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """Allocate private memory of the target."""
        return torch.empty(tuple(shape), dtype=dtype, device=self.step.pool.device)

    def call(self, operation: str) -> Callable[[], object]:
        """`postprocess`, `precopy`, or the `step`: all that a V2 runner launches between two forward passes."""
        if operation == "postprocess":
            return lambda: self.bound.postprocess(self.postprocess_arrays)
        if operation == "precopy":
            return lambda: self.bound.precopy(self.precopy_arrays)
        return self._whole_step()

    def _whole_step(self) -> Callable[[], object]:
        """Accepted counts, postprocess with any snapshot it needs, advance and precopy.

        Advance moves requests on, so each step begins with one copy that puts them back: the same for all targets.
        """
        assert self.mapping is not None
        n = self.step.step.requests
        names = ("accepted", "state_column", "source_column", "bias")
        now = torch.stack([self.arrays[name] for name in names])
        accepted, column, source, bias = now
        initial = now.clone()
        sampled = accepted[self.mapping.long()].contiguous()
        query = torch.arange(n + 1, dtype=torch.int32, device=self.step.pool.device) * (
            1 + self.step.pool.shape.num_spec
        )
        advance = AdvanceArrays(
            num_requests=n,
            state_column=column,
            accepted=accepted,
            computed=self.arrays["new_computed"],
            source_column=source,
            bias=bias,
            query_start=query,
            mapping=self.mapping,
        )
        post = PostprocessArrays(
            runner="V2",
            num_requests=n,
            accepted=accepted,
            state_column=column,
            scheduled=None,
            computed=None,
            draft=None,
            new_computed=self.arrays["new_computed"],
            mapping=self.mapping,
        )
        pre = PrecopyArrays(
            runner="V2",
            num_requests=n,
            destination_column=column,
            source_column=source,
            bias=bias,
            mapping=self.mapping,
        )
        counts = AcceptedArrays(accepted=accepted, sampled=sampled, mapping=self.mapping)
        bound = self.bound

        def run() -> None:
            now.copy_(initial)
            bound.scatter_accepted(counts)
            bound.postprocess(post)
            bound.advance(advance)
            bound.precopy(pre)

        return run

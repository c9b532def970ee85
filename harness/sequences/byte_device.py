"""The byte device runs a sequence's kernel arguments through real kernels, on an arena of tagged states.

It runs together with the symbolic device: before each forward pass and after each postprocess every byte must be the
tag of what the symbolic device holds there, and every count must be that of the state oracle. The effects of layers,
attention and the scheduler's block copies on memory are done here, with tags; precopy, advance and postprocess are the
target's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn, TypeVar

import numpy as np

from harness.case.sequence import SequenceConfig
from harness.case.step_plan import MoveRow, PostprocessInput, StepPlan
from harness.check.layout_tensors import layout_tensors
from harness.check.private_memory import PrivateMemory
from harness.check.raised import compile_failure, is_targets, type_and_message
from harness.check.spans import layout_spans
from harness.kernels.executors.base import ExecutorCannot, KernelDoesNotCompile
from harness.kernels.targets.arguments import AcceptedArrays, AdvanceArrays, HostBatch, HostRequest, StateMove
from harness.kernels.targets.base import OutsideContract, PostprocessArrays, PrecopyArrays, TargetLacks
from harness.kernels.targets.vllm.scheduling.engine import ReleaseLacks
from harness.memory import plan_layout, poison_bytes, stale_numbers
from harness.oracles.states.device import NO_WRITER
from harness.oracles.states.state_oracle import StateOracle
from harness.oracles.states.violation import Violation, ViolationFound
from harness.sequences.arguments import Arguments
from harness.sequences.byte_layout import LAYERS, TOKEN_BYTES, blocks_outermost, byte_layout, page_bytes, window_of
from harness.sequences.kernels import Kernels
from harness.sequences.result import LAUNCHES
from harness.sequences.tags import Pages

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from harness.kernels.targets.base import Bound


T = TypeVar("T")


class ByteDevice:
    """The byte device of one sequence. `dim_first` allows DS windows. Raises ViolationFound, and ReleaseLacks for what
    a target lacks."""

    def __init__(self, kernels: Kernels, config: SequenceConfig, meaning: StateOracle, *, dim_first: bool) -> None:
        self._kernels, self._config, self._meaning = kernels, config, meaning
        self._v2 = config.runner == "V2"
        layout = byte_layout(config, dim_first=dim_first)
        self._plan = plan_layout(layout)
        start = sum(self._plan.private)
        target, executor = kernels.target, kernels.executor
        self._arena = kernels.arena(start + 65536 + 64 * config.requests)
        self._arguments = Arguments(self._arena, start, config.requests, target.mapping_bits, self._v2)
        self._shadow: NDArray[np.uint8] = poison_bytes("A", 0, self._plan.private[0]).copy()
        self._tables = [self._table(group, first) for group, first in enumerate(self._plan.tables)]
        self._known: dict[tuple[int, int], list[int]] = {}
        self._pages = Pages(self._pages_of(layout.conv_layout == "DS"), window_of(config), layout.conv_layout == "DS")
        self._pages.forget()
        self._private = PrivateMemory(self._arena, *self._plan.private, "A", target.is_metadata)
        self._arena.write(0, self._shadow)
        self._arguments.send()
        executor.program_order = "natural"
        self._bound: Bound = self._call(
            lambda: target.bind(layout, layout_tensors(self._arena, self._plan), self._private.allocate)
        )
        if not self._v2 and not config.num_spec:
            self._call(
                lambda: self._bound.staged
            )  # allocated before the executor gets the list of what kernels may touch
        executor.begin(self._arena, [*layout_spans(self._plan), *self._private.spans, *self._arguments.spans])

    def _table(self, group: int, first: int) -> NDArray[np.int32]:
        layout = self._plan.layout
        rows, columns = layout.table_rows, layout.table_columns
        cells = self._shadow[first : first + self._plan.table_bytes].view(np.int32)
        cells[:] = stale_numbers(group, first, rows * columns, 1, layout.num_blocks - 1)
        return cells.reshape(rows, columns)

    def _pages_of(self, is_ds: bool) -> list[NDArray[np.uint8]]:
        config, page, first = self._config, page_bytes(self._config), self._plan.buffers[0]
        whole = self._shadow[first : first + LAYERS * page * config.num_blocks]
        if blocks_outermost(config):
            blocks = whole.reshape(config.num_blocks, LAYERS, page)
            return [blocks[:, layer] for layer in range(LAYERS)]
        return list(whole.reshape(LAYERS, config.num_blocks, page))

    def discard(self) -> None:
        """The KV cache is lost: the next step finds other memory."""
        self._pages.forget()

    # A step, in three parts.

    def start(self, plan: StepPlan) -> None:
        """Run a step up to the forward pass; the symbolic device has just done the same."""
        if plan.zeroed:
            self._pages.forget(plan.zeroed)
        if plan.copies:
            self._pages.copy(plan.copies)
        for row in plan.rows:
            self._write_tables(row.slot, row.mamba)
        self._arena.write(0, self._shadow)
        if plan.rows:
            if self._v2:
                self._advance(plan)
            elif plan.fused:
                self._precopy(plan)
            elif plan.precopy:
                self._copy_by_list(plan)
        self._pages.write(self._meaning.device, self._destinations(plan.precopy))
        self._compare("precopy", plan.precopy)

    def run(self, plan: StepPlan) -> None:
        """Do the forward pass: write its tags, and forget what attention overwrites."""
        device, touched = self._meaning.device, []
        for row in plan.rows:
            last = row.state_column + (row.scheduled - 1 if row.speculative else 0)
            for table in row.mamba:
                touched += table[row.state_column : last + 1]
                if row.checkpoint_offset and table[row.checkpoint_column]:
                    touched.append(table[row.checkpoint_column])
            for group, table in zip(self._meaning.attention, row.attention, strict=True):
                size = self._meaning.attention_sizes[group]
                touched += table[row.computed // size : (row.computed + row.scheduled - 1) // size + 1]
        self._pages.write(device, touched)
        self._arena.write(0, self._shadow)

    def end(
        self, plan: StepPlan, inputs: Sequence[PostprocessInput], sampled: Mapping[str, int], counts: Mapping[str, int]
    ) -> None:
        """Run the part after the forward pass. `sampled` tokens by request, 0 for a row that samples none; `counts` are
        the accepted counts of the state oracle."""
        if not inputs:
            return
        if self._v2:
            self._postprocess_v2(inputs, [sampled[row.request] for row in inputs], counts)
        else:
            self._postprocess_v1(inputs, counts)
        self._pages.write(self._meaning.device, self._destinations(self._meaning.moved))
        self._compare("postprocess", self._meaning.moved)

    def finish(self) -> None:
        """Check the target's private memory after the last step."""
        damaged = self._private.damaged()
        if damaged:
            self._fail("bytes-differ", "private", f"bytes next to {damaged[0]}, memory of the target itself", "poison")

    # Launches.

    def _advance(self, plan: StepPlan) -> None:
        arguments, rows, count = self._arguments, plan.starts, len(plan.starts)
        values, tensors = arguments.values, arguments.tensors
        slots = [row.slot for row in rows]
        values["state_column"][slots] = [row.source for row in rows]
        values["accepted"][slots] = [row.accepted for row in rows]
        values["computed"][slots] = [row.computed for row in rows]
        values["mapping"][:count] = slots
        values["query_start"][0] = 0
        np.cumsum([row.scheduled for row in rows], out=values["query_start"][1 : count + 1])
        arguments.send()
        mapping = tensors["mapping"][:count]
        advance = AdvanceArrays(
            count,
            tensors["state_column"],
            tensors["accepted"],
            tensors["computed"],
            tensors["source_column"],
            tensors["bias"],
            tensors["query_start"][: count + 1],
            mapping,
        )
        precopy = PrecopyArrays(
            "V2", count, tensors["state_column"], tensors["source_column"], tensors["bias"], mapping
        )
        self._call(lambda: self._bound.advance(advance))
        self._call(lambda: self._bound.precopy(precopy))
        values["state_column"][slots] = [row.destination for row in rows]
        values["source_column"][slots] = [row.source for row in rows]
        values["bias"][slots] = [row.bias for row in rows]
        moved = [row for row in rows if row.source >= 0 and row.source != row.destination]
        values["accepted"][[row.slot for row in moved]] = 1
        self._compare_arguments("advance")

    def _precopy(self, plan: StepPlan) -> None:
        arguments, rows, count = self._arguments, plan.starts, len(plan.starts)
        values, tensors = arguments.values, arguments.tensors
        values["source_column"][:count] = [row.source for row in rows]
        values["destination_column"][:count] = [row.destination for row in rows]
        values["bias"][:count] = [row.bias for row in rows]
        arguments.send()
        precopy = PrecopyArrays(
            "V1", count, tensors["destination_column"], tensors["source_column"], tensors["bias"], None
        )
        self._call(lambda: self._bound.precopy(precopy))
        self._compare_arguments("precopy")

    def _copy_by_list(self, plan: StepPlan) -> None:
        import torch

        requests = [HostRequest(row.request, row.computed, row.scheduled, blocks=row.mamba) for row in plan.rows]
        moves = [StateMove(requests[move.slot], move.source, move.destination, move.bias) for move in plan.precopy]
        accepted = torch.ones(self._config.requests, dtype=torch.int32)
        batch = HostBatch(len(requests), requests, {}, accepted)
        self._call(lambda: self._bound.scalar_copy(batch, moves))
        self._kernels.executor.transfers.wait()

    def _postprocess_v2(
        self, inputs: Sequence[PostprocessInput], sampled: list[int], counts: Mapping[str, int]
    ) -> None:
        arguments, count = self._arguments, len(inputs)
        values, tensors = arguments.values, arguments.tensors
        slots = [row.slot for row in inputs]
        values["sampled"][:count] = sampled
        values["mapping"][:count] = slots
        values["new_computed"][slots] = [row.computed + row.scheduled - row.drafts + row.accepted - 1 for row in inputs]
        arguments.send()
        mapping = tensors["mapping"][:count]
        scatter = AcceptedArrays(tensors["accepted"], tensors["sampled"][:count], mapping)
        postprocess = PostprocessArrays(
            runner="V2",
            num_requests=count,
            accepted=tensors["accepted"],
            state_column=tensors["state_column"],
            scheduled=None,
            computed=None,
            draft=None,
            new_computed=tensors["new_computed"],
            mapping=mapping,
        )
        self._call(lambda: self._bound.scatter_accepted(scatter))
        self._call(lambda: self._bound.postprocess(postprocess))
        values["accepted"][slots] = [counts[row.request] for row in inputs]
        self._compare_arguments("postprocess")

    def _postprocess_v1(self, inputs: Sequence[PostprocessInput], counts: Mapping[str, int]) -> None:
        arguments, count = self._arguments, len(inputs)
        values, tensors = arguments.values, arguments.tensors
        values["scheduled"][:count] = [row.scheduled for row in inputs]
        values["computed"][:count] = [row.computed for row in inputs]
        values["draft"][:count] = [row.drafts for row in inputs]
        values["accepted"][:count] = [row.accepted for row in inputs]
        values["state_column"][:count] = [row.state_column for row in inputs]
        arguments.send()
        postprocess = PostprocessArrays(
            runner="V1",
            num_requests=count,
            accepted=tensors["accepted"],
            state_column=tensors["state_column"],
            scheduled=tensors["scheduled"],
            computed=tensors["computed"],
            draft=tensors["draft"],
            new_computed=None,
            mapping=None,
        )
        self._call(lambda: self._bound.postprocess(postprocess))
        self._compare_arguments("postprocess")
        found = self._bound.accepted_out[:count].tolist()
        for row, left in zip(inputs, found, strict=True):
            if left != counts[row.request]:
                self._fail("count-differs", "accepted_out", str(left), str(counts[row.request]), row.request)

    def _call(self, call: Callable[[], T]) -> T:
        """Call the target. A missing function is a skip, an exception is a violation."""
        target = self._kernels.target
        try:
            return call()
        except (TargetLacks, OutsideContract, ExecutorCannot) as error:
            raise ReleaseLacks(str(error)) from error
        except MemoryError:
            raise
        except Exception as error:
            self._kernels.end_with_the_device(error)
            broken = compile_failure(error)
            if broken is not None:
                raise KernelDoesNotCompile(f"{target.name}: {broken}") from error
            if not is_targets(error, target.owns):
                raise
            self._fail(f"exception-{type(error).__name__}", "kernel", type_and_message(error), "no exception")

    # Tables and comparisons.

    def _write_tables(self, slot: int, rows: Sequence[list[int]]) -> None:
        for group, cells in enumerate(rows):
            if self._known.get((group, slot)) != cells:
                self._known[group, slot] = cells
                self._tables[group][slot, : len(cells)] = cells

    @staticmethod
    def _destinations(moves: Sequence[MoveRow]) -> list[int]:
        return [table[move.destination] for move in moves for table in move.mamba]

    def _compare(self, how: str, moves: Sequence[MoveRow]) -> None:
        counters = self._meaning.counters
        counters["byte comparisons"] += 1
        counters[LAUNCHES] += self._kernels.executor.launches
        self._kernels.executor.launches = 0
        for fault in self._kernels.executor.faults():
            where = (
                f"{fault.violation} of {fault.width} bytes at offset {fault.offset}, {fault.source} line {fault.line}"
            )
            self._fail(fault.violation, how, where, "accesses to what the kernel was given")
        found = self._arena.read(0, len(self._shadow))
        if not np.array_equal(found, self._shadow):
            self._differ(how, moves, found)

    def _compare_arguments(self, how: str) -> None:
        name = self._arguments.differing()
        if name is None:
            return
        held, wanted = "", ""
        if name in self._arguments.values:
            held, wanted = str(self._arguments.found(name)), str(self._arguments.values[name].tolist())
        self._fail("count-differs", name, f"{held} after {how}", wanted)

    def _differ(self, how: str, moves: Sequence[MoveRow], found: NDArray[np.uint8]) -> NoReturn:
        at = int(np.argmax(found != self._shadow))
        held, wanted = found[at : at + 8].tobytes().hex(" "), self._shadow[at : at + 8].tobytes().hex(" ")
        config, page, first = self._config, page_bytes(self._config), self._plan.buffers[0]
        if not first <= at < first + LAYERS * page * config.num_blocks:
            self._fail("bytes-differ", "table or guard", f"{held} at offset {at} after {how}", wanted)
        number, within = divmod(at - first, page)
        block, layer = (
            divmod(number, LAYERS) if blocks_outermost(config) else tuple(reversed(divmod(number, config.num_blocks)))
        )
        conv_bytes = window_of(config) * TOKEN_BYTES
        state = "conv" if within < conv_bytes else "temporal"
        where = f"{held} at byte {within} of layer {layer} after {how}"
        for move in moves:
            for group, table in zip(self._meaning.mamba, move.mamba, strict=True):
                if table[move.destination] == block:
                    self._fail("bytes-differ", state, where, wanted, move.request, group, move.destination, block)
        self._fail("bytes-differ", state, f"{where}, where nothing moves", wanted, block=block)

    def _fail(
        self,
        kind: str,
        state: str,
        holds: str,
        should: str,
        request: str = "the batch",
        group: int = -1,
        column: int = -1,
        block: int = -1,
    ) -> NoReturn:
        meaning = self._meaning

        writer = meaning.device.writer[block] if block >= 0 else NO_WRITER
        raise ViolationFound(Violation(kind, state, meaning.step, request, group, column, block, writer, holds, should))

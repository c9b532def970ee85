"""Drive one vLLM target through every operation on tiny memory, in Triton's interpreter, and print the result.

Run as a program by test_vllm_releases.py: a process serves one target only. Argument: the target text.

Two groups of one layer. Block b holds conv tokens 10b .. 10b + 3 (two equal elements each) and a temporal state of
three elements b, so that every value found shows its origin.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from typing import Any

from harness.kernels.executors.registry import create_executor

EXECUTOR = create_executor("interpreter")  # before anything imports triton

import torch  # noqa: E402

from harness.case import Buffer, ConvLayout, ConvState, Group, Layer, Layout, TemporalState  # noqa: E402
from harness.kernels.targets.base import (  # noqa: E402
    Bound,
    LayoutTensors,
    OutsideContract,
    PostprocessArrays,
    PrecopyArrays,
    TargetLacks,
)
from harness.kernels.targets.registry import load_target  # noqa: E402

WINDOW, DIM, BLOCKS, PAGE = 4, 2, 14, 32
TABLES = ([[1, 2, 3], [4, 5, 6], [7, 7, 7]], [[8, 9, 10], [11, 12, 13], [7, 7, 7]])


def layout(conv_layout: ConvLayout) -> Layout:
    row_stride = WINDOW * 2 if conv_layout == "DS" else None

    def layer(buffer: int) -> Layer:
        where: dict[str, Any] = {"buffer": buffer, "block_stride": PAGE}
        conv = ConvState(item_size=2, window=WINDOW, dim=DIM, offset=0, row_stride=row_stride, **where)
        return Layer(states=(conv, TemporalState(item_size=4, shape=(3,), offset=16, **where)))

    return Layout(
        conv_layout=conv_layout,
        block_size=4,
        num_spec=2,
        num_blocks=BLOCKS,
        buffers=(Buffer(size=PAGE * BLOCKS), Buffer(size=PAGE * BLOCKS)),
        groups=(Group(layers=(layer(0),)), Group(layers=(layer(1),))),
        table_rows=3,
        table_columns=3,
    )


class Memory:
    """The tensors of one layout, and a target bound to them."""

    def __init__(self, target: Any, conv_layout: ConvLayout) -> None:
        self.dim_first = conv_layout == "DS"
        self.names: list[str] = []
        self.layers: list[list[torch.Tensor]] = []
        for _ in TABLES:
            raw = torch.zeros(PAGE * BLOCKS, dtype=torch.uint8)
            shape, strides = ((DIM, WINDOW), (WINDOW, 1)) if self.dim_first else ((WINDOW, DIM), (DIM, 1))
            conv = raw.view(torch.bfloat16).as_strided((BLOCKS, *shape), (PAGE // 2, *strides), 0)
            temporal = raw.view(torch.float32).as_strided((BLOCKS, 3), (PAGE // 4, 1), 4)
            self.layers.append([conv, temporal])
        # Contexts keep only addresses, so something must keep the tables: in production the runner, here this class.
        self.tables = [torch.tensor(rows, dtype=torch.int32) for rows in TABLES]
        self.fill()
        tensors = LayoutTensors([[layer] for layer in self.layers], self.tables)
        self.bound: Bound = target.bind(layout(conv_layout), tensors, self.allocate)

    def allocate(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        self.names.append(name)
        tensor = torch.empty(shape, dtype=dtype)
        tensor.view(torch.uint8).fill_(0xA5)
        return tensor

    def fill(self) -> None:
        blocks = torch.arange(BLOCKS)
        tokens = (10 * blocks[:, None] + torch.arange(WINDOW)).to(torch.bfloat16)
        for conv, temporal in self.layers:
            conv.copy_(tokens[:, None, :] if self.dim_first else tokens[:, :, None])
            temporal.copy_(blocks[:, None])

    def changes(self) -> list[dict[str, Any]]:
        """For each group: the blocks that changed, with their conv tokens and the temporal state's one value."""
        found: list[dict[str, Any]] = []
        for conv, temporal in self.layers:
            by_token = conv.transpose(1, 2) if self.dim_first else conv
            assert torch.equal(by_token[:, :, 0], by_token[:, :, 1])
            assert torch.equal(temporal, temporal[:, :1].expand(-1, 3))
            changed: dict[str, Any] = {}
            for block in range(BLOCKS):
                now = [int(value) for value in by_token[block, :, 0]], int(temporal[block, 0])
                if now != ([10 * block + token for token in range(WINDOW)], block):
                    changed[str(block)] = now
            found.append(changed)
        return found


def int32(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def operations(mapping_bits: int) -> dict[str, Any]:
    """Operation name -> arrays. test_vllm_releases.py has the expected result of each."""
    integer = torch.int64 if mapping_bits == 64 else torch.int32

    def mapping(*slots: int) -> torch.Tensor:
        return torch.tensor(slots, dtype=integer)

    def v1(accepted: torch.Tensor, column: torch.Tensor, *parts: torch.Tensor) -> PostprocessArrays:
        return PostprocessArrays("V1", 2, accepted, column, *parts, new_computed=None, mapping=None)

    def v2(accepted: torch.Tensor, column: torch.Tensor, new_computed: torch.Tensor) -> PostprocessArrays:
        return PostprocessArrays("V2", 2, accepted, column, None, None, None, new_computed, mapping(-1, 1))

    return {
        "postprocess V1": v1(int32(3, 2, 9), int32(1, 1, 0), int32(3, 3, 9), int32(3, 4, 9), int32(2, 2, 9)),
        "postprocess V1 in block": v1(int32(2, 2, 9), int32(0, 1, 0), int32(3, 3, 9), int32(2, 4, 9), int32(2, 2, 9)),
        "postprocess V2": v2(int32(7, 3, 7), int32(0, 1, 0), int32(9, 6, 9)),
        "postprocess V2 in block": v2(int32(7, 2, 7), int32(0, 0, 0), int32(9, 4, 9)),
        "precopy V1": PrecopyArrays("V1", 2, int32(1, 2, 0), int32(-1, 0, 0), int32(0, 1, 0), None),
        "precopy V2": PrecopyArrays("V2", 2, int32(2, 2, 0), int32(0, 0, 0), int32(0, 1, 0), mapping(1, -1)),
    }


def validation(target: Any) -> Any:
    """The release's answers for copy functions by type, right and wrong ones, for a type with two states."""
    version = target.version
    if not version.features.validates_functions:
        return "lacks"
    kind, function = ("conv", "temporal"), version.worker.get_temporal_copy_spec
    spec = version.interface.MambaSpec(block_size=4, shapes=((4, 2), (3,)), dtypes=(torch.bfloat16, torch.float32))
    groups = {dataclasses.replace(spec, mamba_type=kind): [0]}
    answers = {}
    for count in range(4):
        functions = {kind: (function,) * count}
        answers[str(count)] = answer(
            lambda functions=functions: version.worker.validate_mamba_state_copy_funcs(groups, functions)
        )
    answers["other type"] = answer(
        lambda: version.worker.validate_mamba_state_copy_funcs(groups, {("temporal",): (function,)})
    )
    return answers


def answer(call: Callable[[], None]) -> str:
    try:
        call()
    except AssertionError as error:
        return str(error)
    return "accepted"


def main() -> None:
    target: Any = load_target(sys.argv[1], EXECUTOR)
    report: dict[str, Any] = {"mapping_bits": target.mapping_bits, "rows_by": target.rows_by, "results": {}}
    memories: dict[str, Memory] = {}
    conv_layouts: tuple[ConvLayout, ...] = ("SD", "DS")
    for conv_layout in conv_layouts:
        try:
            memories[conv_layout] = Memory(target, conv_layout)
        except (OutsideContract, TargetLacks) as error:
            report["results"][conv_layout] = str(error)
    report["validation"] = validation(target)
    report["names"] = memories["SD"].names
    for name in operations(target.mapping_bits):
        for conv_layout, memory in memories.items():  # contexts of both layouts alternate in one process
            arrays = operations(target.mapping_bits)[name]
            memory.fill()
            EXECUTOR.launches = 0
            run = memory.bound.postprocess if isinstance(arrays, PostprocessArrays) else memory.bound.precopy
            try:
                run(arrays)
            except TargetLacks:
                report["results"][f"{conv_layout} {name}"] = "lacks"
                continue
            result: list[Any] = [EXECUTOR.launches, *memory.changes()]
            if isinstance(arrays, PostprocessArrays):
                counts = memory.bound.accepted_out[:2] if arrays.runner == "V1" else arrays.accepted
                result.append(counts.tolist())
            report["results"][f"{conv_layout} {name}"] = result
    print(json.dumps(report))


if __name__ == "__main__":
    main()

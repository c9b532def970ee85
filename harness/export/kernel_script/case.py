"""The data of a case: what lies where in memory, and what is called with which numbers."""

from __future__ import annotations

from typing import Any, NamedTuple


class State(NamedTuple):
    """One state tensor of a layer. Block b begins `offset + b * block_stride` bytes into its buffer; `shape` and
    `strides` (bytes) are those of one block. A conv window has the shape (tokens, dim) in SD layout, (dim, tokens) in
    DS."""

    kind: str
    item: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    buffer: int
    offset: int
    block_stride: int


class Layer(NamedTuple):
    """The states of a layer in their order, and its cache tensors that must not be copied."""

    states: tuple[State, ...]
    extra: tuple[State, ...] = ()


class Operation(NamedTuple):
    """One call. `rows` are its requests in batch order, `arrays` its arguments on the device (int32, one entry a
    request slot; `mapping`: one a batch row), stale entries of other requests included. `options` is what else the call
    has; of host code also `accepted_on_host`, the accepted counts that the runner has there before the call."""

    name: str
    runner: str
    rows: tuple[dict[str, Any], ...]
    arrays: dict[str, list[int]]
    options: dict[str, Any] = {}  # noqa: RUF012 - nothing writes it


class Case(NamedTuple):
    """`buffers` are (size in bytes, bytes past a multiple of 256); `tables[group][slot]` are rows of block ids, stale
    cells included; `accepted_on_host` is what the runner's counts on the host hold before the call.

    `high_addresses`: the device's addresses have their highest bit set.
    """

    domain: str
    conv_layout: str
    block_size: int
    num_spec: int
    num_blocks: int
    buffers: tuple[tuple[int, int], ...]
    groups: tuple[tuple[Layer, ...], ...]
    tables: tuple[list[list[int]], ...]
    high_addresses: bool
    operations: tuple[Operation, ...]

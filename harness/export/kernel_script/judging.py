"""Run the case, and compare what it left with what it should have left."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from harness.export.kernel_script.case import Case, Operation
from harness.export.kernel_script.expected import Expected
from harness.export.kernel_script.loading import CannotRun, Vllm
from harness.export.kernel_script.memory import Image, Memory, places
from harness.export.kernel_script.objects import Setup

SHOWN = 16
"""Bytes of a range, and ranges, that are printed."""
JOINED = 4
"""Ranges with fewer right bytes than this between them are printed as one: random bytes may be equal."""


class Handled(NamedTuple):
    """How one kind of operation is called, and what it must leave. `binds`: the context is bound before the call."""

    expect: Callable[[Operation, Memory, Image], Expected]
    call: Callable[[Operation, Setup], dict[str, list[Any]]]
    binds: bool = True


def choose_device() -> Any:
    """A GPU, or the CPU with Triton's interpreter, which has to be chosen before triton is imported."""
    import torch

    if torch.cuda.is_available():
        return torch.device("cuda")
    if "triton" in sys.modules and os.environ.get("TRITON_INTERPRET") != "1":
        raise CannotRun("no GPU, and triton was imported without TRITON_INTERPRET=1: set it before")
    os.environ["TRITON_INTERPRET"] = "1"
    return torch.device("cpu")


def differences(
    case: Case,
    handled: dict[str, Handled],
    directory: str | None = None,
    start: Callable[[Setup], None] | None = None,
    say: Callable[[str], None] = print,
) -> list[str]:
    """What is wrong, one line each; none: all is as it should be. `start` runs before the call. Raises CannotRun."""
    import torch

    device = choose_device()
    vllm = Vllm(directory, case.conv_layout, whole=device.type == "cuda")
    import triton

    where = torch.cuda.get_device_name() if device.type == "cuda" else "the CPU, through Triton's interpreter"
    around = "" if vllm.directory is None else " (stubs around the files under test)"
    say(f"vllm: {vllm.worker.__file__}{around}; torch {torch.__version__}, triton {triton.__version__}; on {where}")
    try:
        memory = Memory(case, device)
    except (OSError, RuntimeError) as error:  # it spreads further than this machine has memory, or address space
        raise CannotRun(f"the memory of the case: {error}") from error
    for operation in case.operations:
        before = memory.read()
        expected = handled[operation.name].expect(operation, memory, before)
        try:
            setup = Setup(vllm, case, operation, memory)
            if start is not None:
                start(setup)
            if case.high_addresses:
                _bind_high(setup)
            if handled[operation.name].binds:
                setup.bind(setup.in_order(operation))
            numbers = handled[operation.name].call(operation, setup)
        except CannotRun:
            raise
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            place = next((f for f in reversed(frames) if f"{os.sep}vllm{os.sep}" in f.filename), frames[-1])
            file = place.filename.rpartition(f"{os.sep}vllm{os.sep}")[2]
            return [f"{operation.name} raised {type(error).__name__} in {place.name} ({file}:{place.lineno}): {error}"]
        if device.type == "cuda":
            torch.cuda.synchronize()
        wrong = [*_wrong_bytes(memory, before, expected.image), *_wrong_numbers(expected.numbers, numbers)]
        wrong += _changed_tables(setup)
        if wrong:
            return wrong
        say(f"{operation.name}: memory and numbers are as expected")
    return []


def _bind_high(setup: Setup) -> None:
    """Bind the context on a device whose addresses have their highest bit set. Nothing is launched with them."""
    import torch

    own = torch.Tensor.data_ptr
    torch.Tensor.data_ptr = lambda tensor: own(tensor) | 1 << 63  # type: ignore[assignment, method-assign]
    try:
        setup.bind(setup.tables)
    finally:
        torch.Tensor.data_ptr = own  # type: ignore[method-assign]
    setup.renew()


def _wrong_bytes(memory: Memory, before: Image, expected: Image) -> Iterator[str]:
    found, shown, more = memory.read(), 0, 0
    for start, data in found.spans.items():
        right = expected.spans[start]
        offset = 0
        while data != right and offset < len(data):
            if data[offset] == right[offset]:
                offset += 1
                continue
            end = offset
            for here in range(offset, len(data)):
                if data[here] != right[here]:
                    end = here + 1
                elif here - end >= JOINED:
                    break
            first, last = offset, end
            offset = end
            if shown == SHOWN:
                more += 1
                continue
            shown += 1
            old = before.spans[start][first:last]
            kept = ", which is what was there before the call" if data[first:last] == old else ""
            dots = " ..." if last - first > SHOWN else ""
            yield (
                f"bytes are wrong in {last - first}, {places(memory, start + first)}: expected "
                f"{right[first:last][:SHOWN].hex(' ')}{dots}, found {data[first:last][:SHOWN].hex(' ')}{dots}{kept}"
            )
    if more:
        yield f"and {more} more ranges of wrong bytes"


def _wrong_numbers(expected: dict[str, list[Any]], found: dict[str, list[Any]]) -> Iterator[str]:
    for name, right in expected.items():
        for number, (want, got) in enumerate(zip(right, found[name], strict=False)):
            if (want is not None or name == "columns") and want != got:
                yield f"{name}, entry {number}: expected {want}, found {got}"


def _changed_tables(setup: Setup) -> Iterator[str]:
    for group, (tensor, table) in enumerate(zip(setup.tables, setup.case.tables, strict=True)):
        if tensor.tolist() != table:
            yield f"the block table of group {group} has changed"

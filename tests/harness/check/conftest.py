"""A fake system under test: it does what the oracle expects, then the harm that a test asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from harness.case import Case, Layout
from harness.check.operations.registry import expect
from harness.check.outcome import Outcome
from harness.check.session import Session
from harness.kernels.executors.base import AccessFault, AccessSpan, Arena, Executor
from harness.kernels.executors.host_memory import HostArena
from harness.kernels.targets.base import Allocate, Bound, LayoutTensors, PostprocessArrays, PrecopyArrays, Target
from harness.memory import MemoryPlan, initial_image, plan_memory

Harm = Callable[["Workshop"], None]


class PlainExecutor(Executor):
    """Memory without kernels: the target says how many launches there were."""

    name = "plain"
    device = torch.device("cpu")

    def __init__(self) -> None:
        self.seen: list[AccessFault] = []
        self.spans: list[AccessSpan] = []

    @classmethod
    def unavailable(cls) -> str | None:
        return None

    def allocate(self, size: int) -> Arena:
        return HostArena(size)

    def jit(self, function: Callable[..., Any], **options: Any) -> Any:
        raise NotImplementedError("there are no kernels here")

    def begin(self, arena: Arena, spans: Sequence[AccessSpan]) -> None:
        super().begin(arena, spans)
        self.arena = arena
        self.spans = list(spans)
        self.seen.clear()

    def faults(self) -> Sequence[AccessFault]:
        return tuple(self.seen)


class Workshop(Target):
    """Target, context and everything that a test may look at or damage."""

    name = "pretended"
    mapping_bits = 64

    def __init__(self) -> None:
        self.executor = PlainExecutor()
        self.session = Session(self, self.executor)
        self.harms: list[Harm] = []
        self.launches = 1
        self.idle = False
        self.binds = 0
        self.calls: list[PostprocessArrays | PrecopyArrays] = []

    def check(self, case: Case, *harms: Harm) -> Outcome:
        """Judge a case; the first harm belongs to the first operation, and so on."""
        self.case = case
        self.plan: MemoryPlan = plan_memory(case, self.mapping_bits)
        self.image = initial_image(case, self.plan)
        self.harms = list(harms)
        self.index = 0
        return self.session.check(case)

    def bind(self, layout: Layout, tensors: LayoutTensors, allocate: Allocate) -> Bound:
        self.binds += 1
        self.tensors = tensors
        self.scratch = allocate("scratch", (2, 3), torch.int64)
        self.accepted_out = allocate("accepted_out", (layout.table_rows,), torch.int32)
        self.accepted_out.fill_(-7)
        return PretendedContext(self)

    def work(self, arrays: PostprocessArrays | PrecopyArrays) -> None:
        self.calls.append(arrays)
        self.executor.launches += self.launches
        self.expected = expect(self.case, self.plan, self.index, self.image)
        if not self.idle:
            for start, data in self.expected.image.segments:
                self.executor.arena.write(start, data)
            if self.expected.accepted_out is not None:
                counts = self.expected.accepted_out
                self.accepted_out[: len(counts)] = torch.tensor(counts, dtype=torch.int32)
        self.image = self.expected.image
        self.index += 1
        if self.harms:
            self.harms.pop(0)(self)

    def flip(self, offset: int, size: int = 1) -> None:
        """Flip every bit of some bytes of the arena."""
        arena = self.executor.arena
        arena.write(offset, np.bitwise_not(arena.read(offset, size).copy()))


class PretendedContext(Bound):
    def __init__(self, shop: Workshop) -> None:
        self._shop = shop

    @property
    def accepted_out(self) -> torch.Tensor:
        return self._shop.accepted_out

    def postprocess(self, arrays: PostprocessArrays) -> None:
        self._shop.work(arrays)

    def precopy(self, arrays: PrecopyArrays) -> None:
        self._shop.work(arrays)


@pytest.fixture
def shop() -> Workshop:
    return Workshop()

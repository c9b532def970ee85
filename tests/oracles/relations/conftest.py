"""A case for which every relation is defined, and sessions of targets with a planted fault."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from harness.case import (
    Buffer,
    Case,
    Contents,
    ConvState,
    Forward,
    ForwardRow,
    Group,
    Layer,
    Layout,
    Operation,
    Postprocess,
    PostprocessRow,
    Precopy,
    PrecopyRow,
    Runner,
    TemporalState,
)
from harness.check.session import Session
from harness.kernels.executors.base import Executor
from harness.kernels.executors.registry import create_executor
from harness.kernels.targets.builtin import BuiltinTarget

FOLDER = Path(__file__).with_name("faulty_targets")
PAGE, BLOCKS = 2050, 9
ROW, OTHER_ROW = (1, 2, 3, 4), (5, 6, 7, 8)


def layout() -> Layout:
    """One layer: an SD conv state and a temporal state, of more bytes than a program moves at once if, as here, two
    blocks are not equally aligned."""
    conv = ConvState(item_size=2, window=3, dim=4, buffer=0, offset=0, block_stride=PAGE)
    temporal = TemporalState(item_size=1, shape=(1500,), buffer=0, offset=33, block_stride=PAGE)
    return Layout(
        conv_layout="SD",
        block_size=4,
        num_spec=2,
        num_blocks=BLOCKS,
        buffers=(Buffer(size=PAGE * BLOCKS),),
        groups=(Group(layers=(Layer(states=(conv, temporal)),)),),
        table_rows=4,
        table_columns=4,
    )


def precopy(runner: Runner) -> Precopy:
    """Two requests, each from column 0 to column 2 with a bias of 1."""
    slots = (0, 1) if runner == "V1" else (0, 2)
    rows = tuple(PrecopyRow(slot=slot, source_column=0, destination_column=2, bias=1) for slot in slots)
    return Precopy(runner=runner, rows=rows)


def postprocess(runner: Runner) -> Postprocess:
    """A request that shifts inside its block, so that its count is reset, and one that moves to the left."""
    first, second = (0, 1) if runner == "V1" else (0, 2)
    return Postprocess(
        runner=runner,
        rows=(
            PostprocessRow(slot=first, scheduled=3, computed=2, draft=2, accepted=2, state_column=0),
            PostprocessRow(slot=second, scheduled=3, computed=2, draft=2, accepted=3, state_column=1),
        ),
    )


def step() -> tuple[Operation, ...]:
    """A precopy, a forward pass in the columns that it moved to, and a precopy from there."""
    forward = Forward(rows=tuple(ForwardRow(slot=slot, column=2, draft=1) for slot in (0, 2)), payload_seed=5)
    rows = tuple(PrecopyRow(slot=slot, source_column=2, destination_column=1, bias=1) for slot in (0, 2))
    return precopy("V2"), forward, Precopy(runner="V2", rows=rows)


def case_of(*program: Operation, poison: str = "A") -> Case:
    """Blocks ascend along each table row."""
    table = (ROW, OTHER_ROW) if program[0].runner == "V1" else (ROW, (), OTHER_ROW)
    return Case(
        domain="total",
        layout=layout(),
        contents=Contents(
            payload_seed=3,
            poison=poison,  # type: ignore[arg-type]
            tables=(table,),
            owners=(-1, *([0] * (BLOCKS - 1))),
        ),
        program=program,
    )


@pytest.fixture(scope="session")
def make() -> Callable[..., Case]:
    """`make("precopy", "V2")` is a case of that operation; `step` is a program with a forward pass."""

    def made(name: str, runner: Runner, poison: str = "A") -> Case:
        if name == "step":
            return case_of(*step(), poison=poison)
        return case_of({"precopy": precopy, "postprocess": postprocess}[name](runner), poison=poison)

    return made


@pytest.fixture(scope="session")
def executor(executor_name: str) -> Executor:
    return create_executor(executor_name)


@pytest.fixture(scope="session")
def faults() -> ModuleType:
    """The module of faulty targets."""
    spec = importlib.util.spec_from_file_location("faulty_targets", FOLDER / "faulty_targets.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def session_with(executor: Executor, faults: ModuleType) -> Callable[..., Session]:
    """A session of the builtin target, with a fault if one is named."""

    def session(fault: str | None = None) -> Session:
        return Session(BuiltinTarget(executor, [faults.faulty(fault)] if fault else []), executor)

    return session


@pytest.fixture
def faulty_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands started after this know the targets `faulty:NAME`."""
    path = os.pathsep.join(filter(None, [str(FOLDER), os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", path)

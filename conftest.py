"""Options, fixtures and Hypothesis profiles of the whole suite.

There are three tiers. Without an option, tests that take seconds run; `--long` adds those that take more than five
seconds each; `--slow` also adds those that take minutes. Tests marked `gpu` are skipped, with the reason, where no GPU
can be used. Hypothesis profiles: `dev` (few examples, the default), `ci` (more of them, the same ones every time) and
`thorough`; chosen with `--hypothesis-profile`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from harness.case import (
    Buffer,
    Case,
    Contents,
    ConvState,
    Group,
    Layer,
    Layout,
    Operation,
    Precopy,
    PrecopyRow,
    State,
    TemporalState,
)

ROOT = Path(__file__).resolve().parent

# Examples that failed are tried first the next time, on this machine; `ci` tries the same examples everywhere.
EXAMPLES = DirectoryBasedExampleDatabase(ROOT / ".hypothesis" / "examples")
settings.register_profile("dev", max_examples=50, deadline=None, database=EXAMPLES)
settings.register_profile("ci", max_examples=200, deadline=None, derandomize=True, print_blob=True)
settings.register_profile(
    "thorough", max_examples=5000, deadline=None, database=EXAMPLES, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run the tests marked long")
    parser.addoption("--slow", action="store_true", help="also run the tests marked long or slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    slow = config.getoption("--slow")
    asked = {"slow": slow, "long": slow or config.getoption("--long")}
    for tier in (tier for tier, wanted in asked.items() if not wanted):
        for item in items:
            if tier in item.keywords:
                item.add_marker(pytest.mark.skip(reason=f"{tier}: run with --{tier}"))
    on_gpu = [item for item in items if "gpu" in item.keywords]
    if on_gpu:
        from harness.kernels.executors.registry import executor_class

        reason = executor_class("cuda").unavailable()
        for item in on_gpu if reason is not None else ():
            item.add_marker(pytest.mark.skip(reason=f"no GPU: {reason}"))


@pytest.fixture(scope="session")
def executor_name() -> str:
    """The fastest CPU executor that works here."""
    from harness.kernels.executors.registry import executor_class

    return "native" if executor_class("native").unavailable() is None else "interpreter"


Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def harness(tmp_path: Path) -> Command:
    """Call it with the arguments of a `harness` command: the command runs in a separate process and folder."""

    def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command_line(*arguments),
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
            | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
        done.stdout, done.stderr = _without_waits(done.stdout), _without_waits(done.stderr)
        return done

    return run


@pytest.fixture(scope="session")
def without_waits() -> Callable[[str], str]:
    """Call it with what a command has printed: it leaves out the lines that only a busy machine prints."""
    return _without_waits


def _without_waits(printed: str) -> str:
    return re.sub(r"(?m)^(harness: |note )(still loading|judging: |sorting out: ).*\n", "", printed)


def command_line(*arguments: object) -> list[str]:
    start = "from harness.cli.main import main; main()"
    return [sys.executable, "-P", "-c", start, *map(str, arguments)]


@pytest.fixture
def harness_command() -> Callable[..., list[str]]:
    """The command line of a `harness` command, for tests that start it themselves."""
    return command_line


def small_layout(conv_layout: str = "SD", **changes: Any) -> Layout:
    """Two groups that share one buffer of five pages of 64 bytes, tables of 3 x 4.

    Group 0 has a conv state (3 tokens x 4 elements of 2 bytes: SD bytes 0..24 of a page, DS four rows of 6 bytes, 8
    apart) and a temporal state (2 x 3 elements of 4 bytes: bytes 32..56); group 1 a temporal state (4 elements of 8
    bytes: bytes 0..32).
    """
    conv = ConvState(
        item_size=2,
        window=3,
        dim=4,
        buffer=0,
        offset=0,
        block_stride=64,
        row_stride=8 if conv_layout == "DS" else None,
    )
    temporal = TemporalState(item_size=4, shape=(2, 3), buffer=0, offset=32, block_stride=64)
    other = TemporalState(item_size=8, shape=(4,), buffer=0, offset=0, block_stride=64)
    fields: dict[str, Any] = {
        "conv_layout": conv_layout,
        "block_size": 4,
        "num_spec": 2,
        "num_blocks": 5,
        "buffers": (Buffer(size=320),),
        "groups": (Group(layers=(Layer(states=(conv, temporal)),)), Group(layers=(Layer(states=(other,)),))),
        "table_rows": 3,
        "table_columns": 4,
    }
    return Layout(**{**fields, **changes})


def plain_layout(*states: State, num_blocks: int = 8, **changes: Any) -> Layout:
    """One group of one layer with these states, block stride as in the first one, tables of 4 x 4."""
    fields: dict[str, Any] = {
        "num_spec": 0,
        "num_blocks": num_blocks,
        "buffers": (Buffer(size=num_blocks * states[0].block_stride),),
        "groups": (Group(layers=(Layer(states=states),)),),
        "table_rows": 4,
    }
    return small_layout(**{**fields, **changes})


def small_case(
    *program: Operation,
    conv_layout: str = "SD",
    tables: Sequence[Sequence[Sequence[int]]] = (((1, 2),), ((3, 4),)),
    owners: Sequence[int] = (-1, 0, 0, 1, 1),
    payload_seed: int = 7,
    poison: str = "A",
    domain: str = "total",
    layout: Layout | None = None,
) -> Case:
    """A case over `small_layout`; by default request 0 moves from column 0 to column 1."""
    move = Precopy(runner="V1", rows=(PrecopyRow(slot=0, source_column=0, destination_column=1, bias=0),))
    return Case(
        domain=domain,  # type: ignore[arg-type]
        layout=layout if layout is not None else small_layout(conv_layout),
        contents=Contents(
            payload_seed=payload_seed,
            poison=poison,  # type: ignore[arg-type]
            tables=tuple(tuple(tuple(row) for row in table) for table in tables),
            owners=tuple(owners),
        ),
        program=program or (move,),
    )


@pytest.fixture(scope="session")
def make_layout() -> Callable[..., Layout]:
    """`small_layout`."""
    return small_layout


@pytest.fixture(scope="session")
def make_plain_layout() -> Callable[..., Layout]:
    """`plain_layout`."""
    return plain_layout


@pytest.fixture(scope="session")
def make_case() -> Callable[..., Case]:
    """`small_case`."""
    return small_case

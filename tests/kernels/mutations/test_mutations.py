"""Each mutation fits our kernels exactly once, and its fault shows in the bytes of a case made for it.

The cases run in Triton's interpreter, in a child process that runs this file as a script. They go through the builtin
target, so that loading rewritten modules is part of what is tested.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from harness.case import Buffer, ConvState, Group, Layer, Layout, State, TemporalState
from harness.kernels.executors.interpreter import InterpreterExecutor
from harness.kernels.mutations.mutation import Mutation, MutationMismatch, Rewrite, mutate
from harness.kernels.mutations.registry import mutation, mutation_names, split_target
from harness.refusal import UnknownTarget

ROOT = Path(__file__).parents[3]
PATH = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
MOVERS = (
    *("conv-shift-off-by-one", "ds-as-sd", "int32-offset", "lost-reset", "temporal-size", "wrong-destination"),
    "wrong-group",
)
"""Faults of moves in the V1 form; the others need separate cases (tests/kernels/operations)."""
HUGE = 2**31
"""Block stride of the case of `int32-offset`: block 1 is already past what 31 bits can express."""

SOURCE = """\
def first(a):
    x = a + 1
    return x


class Holder:
    @decorated(x)
    def first(self):
        x = 1
        x = x + 1
        return x
"""


def sources() -> dict[str, str]:
    folder = ROOT / "kernels" / "fused"
    return {f"fused/{path.name}": path.read_text() for path in folder.glob("*.py")}


def planted(*rewrites: Rewrite) -> Mutation:
    return Mutation("planted", "a test", {"builtin": {"a.py": [rewrites]}})


def test_a_rewrite_changes_its_function_only() -> None:
    changed = mutate("builtin", {"a.py": SOURCE}, [planted(Rewrite("Holder.first", "return x", "return 2"))])
    assert changed["a.py"] == SOURCE[:-2] + "2\n"


@pytest.mark.parametrize(
    ("function", "pattern", "reason"),
    [
        ("Holder.first", "x", "4 matches in function Holder.first of 'x'"),
        ("first", "self", "0 matches in function first of 'self'"),
        ("Holder.first", "decorated", "0 matches in function Holder.first"),
        ("second", "x", "0 functions second"),
        ("Nobody.first", "x", "0 classes Nobody"),
    ],
)
def test_a_rewrite_that_does_not_fit_once_is_an_error(function: str, pattern: str, reason: str) -> None:
    with pytest.raises(MutationMismatch, match=f"^mutation planted does not fit a.py: {reason}"):
        mutate("builtin", {"a.py": SOURCE}, [planted(Rewrite(function, pattern, "y"))])


def test_the_first_alternative_that_fits_is_taken() -> None:
    alternatives = [
        [Rewrite("first", "a + 1", "a + 2"), Rewrite("first", "nowhere", "")],
        [Rewrite("first", "a + 1", "a + 3")],
        [Rewrite("first", "a + 1", "a + 4")],
    ]
    changed = mutate("builtin", {"a.py": SOURCE}, [Mutation("m", "", {"builtin": {"a.py": alternatives}})])
    assert changed["a.py"] == SOURCE.replace("a + 1", "a + 3")


def test_a_mutation_needs_its_family_and_its_file() -> None:
    with pytest.raises(MutationMismatch, match="not defined for vllm targets"):
        mutate("vllm", {"a.py": SOURCE}, [planted(Rewrite("first", "a", "b"))])
    with pytest.raises(MutationMismatch, match=r"changes a\.py, which this target does not have"):
        mutate("builtin", {"b.py": SOURCE}, [planted(Rewrite("first", "a", "b"))])


@pytest.mark.parametrize("name", mutation_names())
def test_every_mutation_fits_our_kernels(name: str) -> None:
    before = sources()
    after = mutate("builtin", before, [mutation(name)])
    assert [file for file in before if after[file] != before[file]] == list(mutation(name).rewrites["builtin"])


def test_targets_are_split_from_their_mutations(tmp_path: Path) -> None:
    base, chosen = split_target("vllm==0.33.0+ds-as-sd+lost-reset")
    assert base == "vllm==0.33.0"
    assert [planted.name for planted in chosen] == ["ds-as-sd", "lost-reset"]
    (tmp_path / "a+b").mkdir()
    base, chosen = split_target(f"path:{tmp_path}/a+b+ds-as-sd")
    assert (base, len(chosen)) == (f"path:{tmp_path}/a+b", 1)
    suggestion = r"^unknown fault 'dsassd'; did you mean 'ds-as-sd'\?; known: advance-resets"
    with pytest.raises(UnknownTarget, match=suggestion):
        split_target("builtin+dsassd")
    with pytest.raises(UnknownTarget, match="named twice"):
        split_target("builtin+ds-as-sd+ds-as-sd")


@pytest.fixture(scope="module")
def differences() -> dict[str, bool]:
    reason = InterpreterExecutor.unavailable()
    if reason is not None:
        pytest.skip(reason)
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": PATH}
    done = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, bool] = json.loads(done.stdout)
    return found


@pytest.mark.long
@pytest.mark.parametrize("name", MOVERS)
def test_every_mutation_shows_in_bytes(differences: dict[str, bool], name: str) -> None:
    assert differences[name]


def layout(name: str) -> Layout:
    """Two groups of one layer, a conv and a temporal state each, that share padded pages of 64 bytes."""
    ds = name == "ds-as-sd"
    stride = HUGE if name == "int32-offset" else 64
    states: tuple[State, ...] = (
        ConvState(item_size=2, window=4, dim=3, buffer=0, offset=0, block_stride=stride, row_stride=8 if ds else None),
        TemporalState(item_size=4, shape=(2, 3), buffer=0, offset=24, block_stride=stride),
    )
    return Layout(
        conv_layout="DS" if ds else "SD",
        block_size=4,
        num_spec=2,
        num_blocks=9,
        buffers=(Buffer(size=9 * stride),),
        groups=(Group(layers=(Layer(states=states),)), Group(layers=(Layer(states=states),))),
        table_rows=1,
        table_columns=4,
    )


def touched(case: Layout) -> Iterator[tuple[int, int]]:
    """Where the pages of the case lie: offset and size."""
    stride = case.groups[0].layers[0].states[0].block_stride
    for block in range(case.num_blocks):
        yield block * stride, 64


def outcome(name: str, mutations: Sequence[Mutation]) -> bytes:
    """All pages and accepted counts after a postprocess within column 1 and a precopy from there to column
    3."""
    from harness.kernels.targets.base import LayoutTensors, PostprocessArrays, PrecopyArrays
    from harness.kernels.targets.builtin import BuiltinTarget

    executor = InterpreterExecutor()
    case = layout(name)
    arena = executor.allocate(case.buffers[0].size)
    for offset, size in touched(case):
        arena.write(offset, np.random.default_rng(offset).integers(0, 256, size, dtype=np.uint8))
    conv, temporal = case.groups[0].layers[0].states
    blocks, stride = case.num_blocks, conv.block_stride
    conv_shape = (blocks, 3, 4) if case.conv_layout == "DS" else (blocks, 4, 3)
    tensors = [
        arena.tensor(
            0, 8 * stride + 24, torch.bfloat16, conv_shape, (stride // 2, conv_shape[2], 1)
        ),
        arena.tensor(
            temporal.offset, 8 * stride + 24, torch.float32, (blocks, 2, 3), (stride // 4, 3, 1)
        ),
    ]  # fmt: skip
    tables = [torch.tensor([row], dtype=torch.int32) for row in ([1, 2, 3, 4], [5, 6, 7, 8])]

    def ints(value: int) -> torch.Tensor:
        return torch.tensor([value], dtype=torch.int32)

    bound = BuiltinTarget(executor, mutations).bind(
        case,
        LayoutTensors([[tensors], [tensors]], tables),
        lambda _, shape, dtype: torch.zeros(tuple(shape), dtype=dtype),
    )
    bound.postprocess(
        PostprocessArrays(
            runner="V1", num_requests=1, accepted=ints(3), state_column=ints(1), scheduled=ints(3),
            computed=ints(5), draft=ints(2), new_computed=None, mapping=None,
        )
    )  # fmt: skip
    bound.precopy(
        PrecopyArrays(
            runner="V1", num_requests=1, destination_column=ints(3), source_column=ints(1), bias=ints(1),
            mapping=None,
        )
    )  # fmt: skip
    assert executor.launches == 2
    pages = b"".join(arena.read(offset, size).tobytes() for offset, size in touched(case))
    return pages + bound.accepted_out.numpy().tobytes()


def main() -> None:
    print(json.dumps({name: outcome(name, [mutation(name)]) != outcome(name, []) for name in MOVERS}))


if __name__ == "__main__":
    main()

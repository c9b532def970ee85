"""The benchmark of kernels without a GPU: its launches are right, and its reports can be compared and drawn.

Clocks are stubs that run each call once; the figures mean nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
import pytest
import torch

from harness.bench.comparison import compare
from harness.bench.gpu_timing import Call, sample
from harness.bench.kernels import Benchmark, measure
from harness.bench.plot import NoPlot, save_plot
from harness.bench.pools import Pool, StepShape
from harness.bench.report import SHORTEST, Report, Row, Sample
from harness.bench.shapes import SHAPES, ModelShape, StateShape
from harness.kernels.executors.cuda import CudaExecutor
from harness.kernels.executors.native.executor import NativeExecutor
from harness.kernels.targets.registry import load_target

CPU = torch.device("cpu")
CONV, TEMPORAL = StateShape("conv", (4, 24), 2), StateShape("temporal", (2, 4, 8), 4)
SMALL = ModelShape(
    name="small",
    source="this test",
    groups=(((CONV, TEMPORAL), (CONV, TEMPORAL)), ((CONV,),)),
    page=1024,
    block_size=16,
    num_spec=2,
    columns=9,
    rows=16,
)
OTHER = msgspec.structs.replace(SMALL, name="other", num_spec=0, rows=64, blocks_outermost=True)


class OnceEach:
    """Runs every call once and calls it a microsecond."""

    def time_graphs(self, arms: Mapping[str, Sequence[Call]], rounds: int) -> dict[str, Sample]:
        for calls in arms.values():
            for call in calls:
                call()
        return dict.fromkeys(arms, Sample(1.0, 0.0))

    time_launches = time_graphs

    def time_host(self, arms: Mapping[str, Call], rounds: int) -> dict[str, Sample]:
        return self.time_graphs({name: [call] for name, call in arms.items()}, rounds)

    time_steps = time_host


@pytest.fixture(scope="module")
def report() -> Report:
    executor = NativeExecutor(checks=False)
    benchmark = Benchmark(
        {"builtin": load_target("builtin", executor)}, CPU, rounds=3, batches=(1, 8, 32), many=(64,), clocks=OnceEach()
    )
    rows = list(benchmark.run([SMALL, OTHER]))
    assert benchmark.skipped == ["small, 32 requests that all move: only 8 fit this device"]
    return Report(device="none", torch="0", triton="0", python="0", targets=["builtin"], seconds=1.0, rows=rows)


def test_every_shape_says_where_it_is_from_and_can_be_laid_out() -> None:
    assert len({shape.name for shape in SHAPES}) == len(SHAPES) == 12
    for shape in SHAPES:
        assert len(shape.source) > 20
        for conv_layout in ("SD", "DS"):
            for aligned in (True, False):
                layout = shape.layout(conv_layout, 40, 1024, aligned=aligned)  # type: ignore[arg-type]
                assert layout.num_states == sum(len(layer) for group in shape.groups for layer in group)
                assert all(state.natural_bytes % 16 == 0 for _, state in layout.states())


@pytest.mark.long
def test_all_kinds_of_steps_are_measured_once(report: Report) -> None:
    assert len({row.key for row in report.rows}) == len(report.rows)
    kinds = {(row.shape, row.conv_layout, row.aligned, row.operation, row.fill, row.measure) for row in report.rows}
    for shape in ("small", "other"):
        for fill in ("idle", "decode", "mixed", "burst"):
            assert (shape, "SD", True, "postprocess V1", fill, "graph") in kinds
        for conv_layout in ("SD", "DS"):
            for aligned in (True, False):
                assert (shape, conv_layout, aligned, "postprocess V1", "burst", "graph") in kinds
        for fill in ("idle", "mixed", "burst"):
            assert (shape, "SD", True, "step V2", fill, "graph") in kinds
        assert (shape, "SD", True, "precopy V2", "idle", "graph") in kinds
    assert ("small", "DS", True, "postprocess V1", "same block", "graph") in kinds
    assert ("small", "SD", True, "precopy V2", "idle", "host") in kinds
    assert ("small", "SD", True, "after a step V1", "decode", "latency") in kinds
    for row in report.rows:
        assert (row.bytes > 0) == (row.movers > 0)
        assert ("copy" in row.times) == (row.movers > 0 and row.measure == "graph")


@pytest.mark.parametrize("conv_layout", ["SD", "DS"])
@pytest.mark.parametrize("operation", ["postprocess", "precopy", "step"])
@pytest.mark.parametrize("aligned", [True, False])
def test_a_step_moves_as_many_bytes_as_it_says(conv_layout: str, operation: str, aligned: bool) -> None:
    target = load_target("builtin", NativeExecutor(checks=False))
    pool = Pool(SMALL, conv_layout, 5, 1, CPU, aligned=aligned)  # type: ignore[arg-type]
    (step,) = pool.steps(StepShape(12, 5), 1)
    before = pool.memory.clone()
    step.bind(target, "V2").call(operation)()
    changed = int((pool.memory != before).sum())
    # One random byte in 256 keeps its value by chance.
    assert 0.97 * step.bytes / 2 < changed <= step.bytes / 2


def test_more_than_a_pool_holds_is_refused() -> None:
    with pytest.raises(ValueError, match="2 steps of 3 moving requests do not fit a pool for 5"):
        Pool(SMALL, "SD", 5, 1, CPU).steps(StepShape(8, 3), 2)


def test_the_spread_is_that_of_the_quartiles() -> None:
    assert sample([4.0, 1.0, 2.0, 3.0, 5.0]) == Sample(3.0, 1.0)
    assert sample([7.0]) == Sample(7.0, 0.0)
    assert sample([0.0]) == sample([1e-4]) == Sample(SHORTEST, 0.0)


def changed(report: Report, number: int, times: dict[str, Sample]) -> Report:
    rows: list[Row] = list(report.rows)
    rows[number] = msgspec.structs.replace(rows[number], times=times)
    return msgspec.structs.replace(report, rows=rows)


def test_what_became_slower(report: Report) -> None:
    same = compare(report, report, 0.05)
    assert (same.mean, same.only_old, same.only_new) == (1.0, 0, 0)
    assert not [change for change in same.changes if change.slower]
    slow = compare(report, changed(report, 3, {"builtin": Sample(1.2, 0.0)}), 0.05)
    assert [(change.ratio, change.slower) for change in slow.changes][:2] == [(1.2, True), (1.0, False)]
    assert slow.changes[0].row.key == report.rows[3].key
    # A difference within the spread of both may be chance.
    unsure = compare(report, changed(report, 3, {"builtin": Sample(1.2, 0.3)}), 0.05)
    assert not unsure.changes[0].slower
    fewer = compare(report, msgspec.structs.replace(report, rows=report.rows[:5]), 0.05)
    assert (len(fewer.changes), fewer.only_old, fewer.only_new) == (5, len(report.rows) - 5, 0)


def test_comparing_two_files(report: Report, tmp_path: Path, command: Callable[..., tuple[int, str, str]]) -> None:
    old, new, wrong = tmp_path / "old.json", tmp_path / "new.json", tmp_path / "wrong.json"
    old.write_bytes(msgspec.json.encode(report))
    new.write_bytes(msgspec.json.encode(changed(report, 0, {"builtin": Sample(2.0, 0.0)})))
    wrong.write_text("{}")

    status, printed, _ = command("bench", "compare", old, old)
    assert status == 0
    assert "times 1.000 on average; 0 slower" in printed
    status, printed, _ = command("bench", "compare", old, new)
    assert status == 1
    assert "slower: builtin, small SD, postprocess V1, idle, 1/0: 1.00 -> 2.00 us, times 2.000" in printed
    for bad in (wrong, tmp_path / "missing.json"):
        status, _, errors = command("bench", "compare", old, bad)
        assert (status, len(errors.splitlines())) == (2, 1)


def test_a_plot_has_a_panel_for_each_kind_of_step(report: Report, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / "plot.svg"
    save_plot(report, file)
    assert file.read_text().count('<g id="axes_') > 3
    with pytest.raises(NoPlot, match="no kind of step with several numbers of requests"):
        save_plot(msgspec.structs.replace(report, rows=report.rows[:2]), file)


def test_what_is_measured_can_be_saved_and_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CudaExecutor, "unavailable", lambda: "this test wants none")
    measured = measure(["builtin"], [])
    assert measured.skipped == ("this test wants none",)
    assert measured.torch == torch.__version__
    text = msgspec.json.encode(measured)
    assert msgspec.json.encode(msgspec.json.decode(text, type=Report)) == text


def refused(printed: tuple[int, str, str], *words: str) -> None:
    status, out, errors = printed
    assert (status, out, len(errors.splitlines())) == (2, "", 1)
    assert all(word in errors for word in words)


def test_files_that_cannot_be_written_are_refused_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Callable[..., tuple[int, str, str]]
) -> None:
    monkeypatch.setattr("harness.bench.kernels.measure", lambda *_, **__: pytest.fail("measured"))
    (tmp_path / "file").touch()
    refused(command("bench", "kernels", "--save", tmp_path), f"{tmp_path}", "directory")
    refused(command("bench", "kernels", "--save", tmp_path / "file" / "report.json"), "Not a directory")
    refused(command("bench", "kernels", "--save", "/dev/null"), "not a regular file")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        refused(command("bench", "kernels", "--plot", tmp_path / "plot.svg"), "plots need matplotlib")
    else:
        refused(command("bench", "kernels", "--plot", tmp_path / "plot.mp3"), "suffix")
        refused(command("bench", "kernels", "--plot", tmp_path / "file" / "plot.svg"), "Not a directory")


def test_a_saved_report_is_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Callable[..., tuple[int, str, str]]
) -> None:
    monkeypatch.setattr(CudaExecutor, "unavailable", lambda: "this test wants none")
    file = tmp_path / "new folder" / "report.json"
    status, printed, _ = command("bench", "kernels", "--json", "--save", file)
    assert status == 0
    assert msgspec.json.decode(printed) == msgspec.json.decode(file.read_bytes())
    assert [path.name for path in file.parent.iterdir()] == ["report.json"]


def test_without_a_usable_triton_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, command: Callable[..., tuple[int, str, str]]
) -> None:
    monkeypatch.delitem(sys.modules, "harness.bench.kernels")
    monkeypatch.setitem(sys.modules, "triton", None)
    refused(command("bench", "kernels"), "kernels cannot be measured", "triton")
    monkeypatch.setattr("harness.kernels.executors.requirements.unmet", lambda *_: "triton is not installed")
    refused(command("bench", "kernels"), "kernels cannot be measured: triton is not installed")


@pytest.mark.gpu
def test_a_shape_on_a_gpu(tmp_path: Path) -> None:
    if not torch.cuda.is_available():
        pytest.skip("PyTorch finds no CUDA device")
    measured = measure(["builtin"], [SMALL], rounds=3)
    assert measured.skipped == [] or "fit this device" in measured.skipped[0]
    assert all(time.microseconds > 0 for row in measured.rows for time in row.times.values())

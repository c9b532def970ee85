"""`harness bench`: how fast executors and whole campaigns are on this machine."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from harness.case import DEFAULT_CHECKS
from harness.cli import options
from harness.cli.case_options import COPIES, OPERATIONS, kernel_operations, parse_domain
from harness.cli.options import ExecutorOption, JsonOption, TargetOption, option, split
from harness.cli.run_options import require_operations
from harness.text import counted

if TYPE_CHECKING:
    from harness.bench.report import Report, Row
    from harness.engines.random import CheckPolicy


def parse_operations(text: str) -> Any:
    """Kernel operations of a comma-separated list. Raises typer.BadParameter."""
    require_operations(split(text), OPERATIONS)
    return kernel_operations(split(text))


_DEFAULT = ",".join(COPIES)

app = typer.Typer(help="Measure kernels, executors and campaigns, and compare them in one run.", no_args_is_help=True)


@app.command()
def executors(target: TargetOption = "builtin", json: JsonOption = False) -> None:
    """Measure one launch of 4 requests x 8 states x 16 tiles on every executor, and the time to compile it."""
    from harness.bench.executors import measure
    from harness.kernels.targets.registry import prepare

    prepare(target, options.announce)
    times = measure(target)
    if json:
        print(msgspec.json.encode(times).decode())
        return
    table = Table(title=f"one precopy launch of {target}, {times.programs} programs", box=None)
    for name in ("executor", "ms a launch", "times the interpreter"):
        table.add_column(name, justify="left" if name == "executor" else "right")
    for name, ms in (
        ("interpreter", times.interpreter_ms),
        ("native, memory checks", times.native_checked_ms),
        ("native, memory checks and race oracle", times.native_races_ms),
        ("native, no checks", times.native_unchecked_ms),
        ("cuda", times.cuda_ms),
    ):
        if ms is not None:
            table.add_row(name, f"{ms:.3f}", f"{times.interpreter_ms / ms:,.0f}")
    console = Console(highlight=False)
    console.print(table)
    console.print(f"a native variant: {times.cold_ms:.0f} ms cold, {times.cached_ms:.0f} ms from the disk cache")


@app.command()
def throughput(
    target: TargetOption = "builtin",
    executor: ExecutorOption = None,
    workers: Annotated[int, typer.Option("--workers", "-j", help="Worker processes.", min=1, max=256)] = 2,
    seconds: Annotated[float, typer.Option("--seconds", help="How long each campaign runs.", min=1.0)] = 15.0,
    ops: Annotated[
        Any, option("--ops", parser=parse_operations, metavar="NAMES", help="Operations, comma-separated.")
    ] = _DEFAULT,
    json: JsonOption = False,
) -> None:
    """Measure whole cases a second, by checks, and how a worker spends its time."""
    from harness.bench.throughput import measure
    from harness.kernels.targets.registry import prepare

    prepare(target, options.announce)
    chosen = options.executor_or_default(executor)
    policies: tuple[tuple[str, CheckPolicy], ...] = (
        ("vary, the default", "vary"),
        ("all", DEFAULT_CHECKS),
        ("memory", ("memory",)),
        ("none", ()),
    )
    rows = [
        (name, measure(target, chosen, checks=checks, workers=workers, seconds=seconds, operations=ops))
        for name, checks in policies
    ]
    if json:
        varied, *others = (msgspec.to_builtins(row) for _, row in rows)
        keys = ("all_checks", "memory_checks", "unchecked")
        print(msgspec.json.encode({**varied, **dict(zip(keys, others, strict=True))}).decode())
        return
    table = Table(title=f"whole cases of {target} on {chosen}, {counted(workers, 'worker')}", box=None)
    for name in ("checks", "cases a second", *rows[0][1].share):
        table.add_column(name, justify="right")
    for name, row in rows:
        shares = [f"{share:.0%}" for share in row.share.values()]
        table.add_row(name, f"{row.cases_per_second:,.0f}", *shares)
    Console(highlight=False).print(table)


@app.command()
def sequences(
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="The release whose scheduler runs. Default: the newest.")
    ] = None,
    cases: Annotated[int, typer.Option("--cases", help="Sequences of each arm.", min=1)] = 40,
    rounds: Annotated[int, typer.Option("--rounds", help="Measured rounds, after one warm-up.", min=1)] = 3,
    json: JsonOption = False,
) -> None:
    """Measure engine steps a second of one core: symbolically by runner, and with bytes through builtin and the
    release."""
    from harness.bench.sequences import measure
    from harness.kernels.targets.registry import prepare
    from harness.sequences.subject import require_driven, sequence_target

    chosen = sequence_target(target or "")
    require_driven(chosen, options.announce)
    prepare(chosen, options.announce)
    speeds = measure(chosen, ("builtin", chosen), "native", cases, rounds)
    if json:
        print(msgspec.json.encode(speeds).decode())
        return
    table = Table(title=f"step sequences of {chosen}, processor time of one core, medians", box=None)
    for name in ("run", "steps", "µs a step", "steps a second"):
        table.add_column(name, justify="left" if name == "run" else "right")
    for speed in speeds:
        table.add_row(
            speed.name, f"{speed.steps:,}", f"{speed.microseconds_per_step:,.0f}", f"{speed.steps_per_second:,.0f}"
        )
    Console(highlight=False).print(table)


@app.command()
def mutations(
    targets: Annotated[
        list[str] | None, typer.Argument(help="Mutated targets (TARGET+NAME). Default: every mutation of builtin.")
    ] = None,
    executor: ExecutorOption = None,
    seeds: Annotated[int, typer.Option("--seeds", help="Seeds 0 to SEEDS - 1.", min=1)] = 10,
    cases: Annotated[int, typer.Option("--cases", help="Maximum number of cases per seed.", min=1)] = 300,
    domain: Annotated[
        Any,
        option(
            "--domain",
            parser=parse_domain,
            metavar="DOMAIN",
            help="reachable, total or both. Default: where the mutation shows.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Measure how reliably and how fast planted faults are found, and how similar the minimal cases are. Status 1 if a
    seed misses one."""
    from harness.bench.mutations import measure
    from harness.engines.random import Recipe
    from harness.kernels.mutations.registry import mutation_names, split_target
    from harness.kernels.targets.registry import prepare

    chosen = options.executor_or_default(executor)
    scores = []
    for target in targets or [f"builtin+{name}" for name in mutation_names()]:
        planted = split_target(target)[1]
        if not planted:
            raise typer.BadParameter(f"{target} has no planted fault: write TARGET+NAME")
        names = {operation for mutation in planted for operation in mutation.operations}
        domains = {name for mutation in planted for name in mutation.domains}
        recipe = Recipe(
            seed=0,
            domains=domain or parse_domain("both" if len(domains) > 1 else "".join(domains)),
            operations=kernel_operations(sorted(names)),
            scale="small" if chosen == "interpreter" else "full",
        )
        prepare(target, options.announce)
        scores.append(measure(recipe, target, chosen, seeds, cases))
        if not json:
            score = scores[-1]
            print(
                f"{score.target}: found by {score.found} of {counted(score.seeds, 'seed')}, median "
                f"{score.median_seconds} s; "
                f"shrunk in a median of {score.median_executions} executions; equal minimal cases {score.alike}",
                flush=True,
            )
            for signature, count in score.signatures.items():
                print(f"  {count:3} {signature}", flush=True)
    if json:
        print(msgspec.json.encode(scores).decode())
    if any(score.found < score.seeds for score in scores):
        raise typer.Exit(1)


@app.command()
def kernels(
    target: TargetOption = "builtin",
    against: Annotated[
        list[str] | None, typer.Option("--against", "-a", help="A target to compare with; may be repeated.")
    ] = None,
    shape: Annotated[
        list[str] | None, typer.Option("--shape", help="A shape, by name; may be repeated. Default: all.")
    ] = None,
    rounds: Annotated[int, typer.Option("--rounds", help="Measured replays of each graph.", min=3)] = 15,
    save: Annotated[Path | None, typer.Option("--save", help="Keep the report as JSON, for `compare`.")] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw time over requests (svg, png, pdf); needs matplotlib.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Measure launches of a step on shapes of published models: in CUDA graphs, on the host, as a whole step. Needs a
    GPU."""
    from harness.bench.plot import NoPlot, require_plot, save_plot
    from harness.bench.shapes import SHAPES
    from harness.files import require_writable_file, write_whole
    from harness.kernels.targets.base import OutsideContract, TargetLacks
    from harness.kernels.targets.registry import prepare

    names = {one.name: one for one in SHAPES}
    wanted = list(dict.fromkeys(shape or names))
    if unknown := [name for name in wanted if name not in names]:
        raise typer.BadParameter(f"no shape is called {unknown[0]}; there are {', '.join(names)}")
    # Check this before minutes of measuring, not after them.
    if save is not None:
        require_writable_file(save)
    if plot is not None:
        try:
            require_plot(plot)
        except NoPlot as error:
            raise typer.BadParameter(f"{error}") from error
    measure = _kernel_benchmark()
    targets = list(dict.fromkeys([target, *(against or ())]))
    for name in targets:
        prepare(name, options.announce)
    console = Console(highlight=False)
    try:
        report = measure(
            targets,
            [names[name] for name in wanted],
            rounds=rounds,
            progress=None if json else lambda row: console.print(_kernel_line(row, targets), soft_wrap=True),
        )
    except (TargetLacks, OutsideContract) as error:
        raise typer.BadParameter(f"{error}") from error
    if save is not None:
        write_whole(save, msgspec.json.format(msgspec.json.encode(report)))
    if json:
        print(msgspec.json.encode(report).decode())
    else:
        for line in (*(f"skipped: {reason}" for reason in report.skipped), *_kernel_summary(report)):
            console.print(line, soft_wrap=True)
    if plot is not None and report.rows:
        try:
            save_plot(report, plot)
        except NoPlot as error:
            raise typer.BadParameter(f"{error}") from error


@app.command()
def compare(
    old: Annotated[Path, typer.Argument(help="A report of `harness bench kernels --save`.")],
    new: Annotated[Path, typer.Argument(help="A later report, of the same machine.")],
    threshold: Annotated[
        float, typer.Option("--threshold", help="How much longer counts as slower, as a share.", min=0.0)
    ] = 0.05,
    json: JsonOption = False,
) -> None:
    """Report what the second report measured slower than the first. Status 1 if there is anything.

    Exit status: 2 for a file that is not a report, or for two reports without a common measurement.
    """
    from harness.bench.comparison import compare as compared
    from harness.bench.report import read_report

    if not math.isfinite(threshold):
        raise typer.BadParameter(f"--threshold {threshold} is not a share: write 0.05 for five per cent")
    reports = [read_report(file) for file in (old, new)]
    result = compared(reports[0], reports[1], threshold)
    if result.mean is None:
        raise typer.BadParameter(f"{old} and {new} have no measurement in common")
    slower = [change for change in result.changes if change.slower]
    if json:
        print(msgspec.json.encode(result).decode())
        raise typer.Exit(1 if slower else 0)
    if reports[0].device != reports[1].device:
        print(f"different devices: {reports[0].device} and {reports[1].device}")
    for change in slower:
        print(
            f"slower: {change.target}, {_described(change.row)}: {change.old:.2f} -> {change.new:.2f} us, "
            f"times {change.ratio:.3f}"
        )
    print(
        f"{counted(len(result.changes), 'measurement')}, times {result.mean:.3f} on average; "
        f"{len(slower)} slower; {result.only_old} only in the first, {result.only_new} only in the second"
    )
    raise typer.Exit(1 if slower else 0)


def _kernel_benchmark() -> Callable[..., Report]:
    """The function that measures kernels. Raises UnavailableExecutor if PyTorch or Triton is missing, does not fit or
    is damaged."""
    from harness.kernels.executors.registry import UnavailableExecutor
    from harness.kernels.executors.requirements import unmet

    reason = unmet("torch", "triton", "numpy")
    if reason is not None:
        raise UnavailableExecutor(f"kernels cannot be measured: {reason}")
    try:
        from harness.bench.kernels import measure
    except (ImportError, OSError) as error:
        raise UnavailableExecutor(
            f"kernels cannot be measured: a required module cannot be imported: {error}"
        ) from error
    return measure


def _described(row: Row) -> str:
    alignment = "" if row.aligned else " unaligned"
    measure = "" if row.measure == "graph" else f" ({row.measure})"
    return (
        f"{row.shape} {row.conv_layout}{alignment}, {row.operation}{measure}, {row.fill}, {row.requests}/{row.movers}"
    )


def _kernel_line(row: Row, targets: list[str]) -> str:
    """One row: microseconds of each arm, and the speed of the first target as a multiple of the others'."""
    first = row.times[targets[0]].microseconds
    times = ", ".join(
        f"{name} {sample.microseconds:.2f} (±{sample.spread / 2:.1%})" for name, sample in row.times.items()
    )
    ratios = ", ".join(f"{row.times[name].microseconds / first:.3f} times as fast as {name}" for name in targets[1:])
    speed = f", {row.bytes / first / 1e6:.2f} TB/s" if row.bytes and row.measure == "graph" else ""
    return f"{_described(row)}: {times} us{speed}{'; ' + ratios if ratios else ''}"


def _kernel_summary(report: Report) -> list[str]:
    """A comparison of the first target with each other one."""
    lines = []
    ours = report.targets[0]
    graphs = [row for row in report.rows if row.measure == "graph"]
    for peer in report.targets[1:]:
        for name, rows in (
            ("nothing moves", [row for row in graphs if not row.movers]),
            ("some or all move", [row for row in graphs if row.movers]),
        ):
            ratios = [(row.times[peer].microseconds / row.times[ours].microseconds, row) for row in rows]
            if ratios:
                mean = statistics.geometric_mean(ratio for ratio, _ in ratios)
                worst = min(ratios, key=lambda pair: pair[0])
                lines.append(
                    f"{name}: {ours} is {mean:.3f} times as fast as {peer} ({counted(len(ratios), 'row')}, geometric "
                    f"mean); least {worst[0]:.3f}, {_described(worst[1])}"
                )
    if report.rows:
        lines.append(f"{counted(len(report.rows), 'row')} on {report.device} in {report.seconds:.0f} s")
    return lines

"""`harness bench`: how fast executors and whole campaigns are here, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from harness.case import DEFAULT_CHECKS
from harness.cli import options
from harness.cli.case_options import DEFAULT_OPERATIONS, OPERATIONS, kernel_operations, parse_domain
from harness.cli.options import ExecutorOption, JsonOption, TargetOption, option, split
from harness.cli.run_options import require_operations
from harness.text import counted

if TYPE_CHECKING:
    from harness.engines.random import CheckPolicy


def parse_operations(text: str) -> Any:
    """Kernel operations of a comma-separated list. Raises typer.BadParameter."""
    require_operations(split(text), OPERATIONS)
    return kernel_operations(split(text))


_DEFAULT = ",".join(DEFAULT_OPERATIONS)

app = typer.Typer(help="Measure executors and campaigns, side by side in one run.", no_args_is_help=True)


@app.command()
def executors(target: TargetOption = "builtin", json: JsonOption = False) -> None:
    """One launch of 4 requests x 8 states x 16 tiles on every executor, and what compiling it takes."""
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
    """Whole cases a second, by what is watched, and where a worker's time goes."""
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
    """Engine steps a second of one core: symbolically by runner, and with bytes through builtin and the release."""
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
    """How surely, how fast and how alike planted faults are found. Status 1 if one is missed by some seed."""
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
                f"shrunk in a median of {score.median_executions} executions; alike {score.alike}",
                flush=True,
            )
            for signature, count in score.signatures.items():
                print(f"  {count:3} {signature}", flush=True)
    if json:
        print(msgspec.json.encode(scores).decode())
    if any(score.found < score.seeds for score in scores):
        raise typer.Exit(1)

"""`harness run`: a campaign."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from harness.cli import options, sequences
from harness.cli.options import ExecutorOption, JsonOption
from harness.exit_status import worst

DEFAULT_BUDGET = 60.0


_OF_SEQUENCES = {
    "pins": "--pins",
    "include_known": "--include-known",
    "fixes": "--fixes",
    "resume_sequences": "--resume-sequences",
    "on_bytes": "--bytes",
    "cases_out": "--cases-out",
}
"""Options that say something about step sequences alone."""

_OF_KERNELS = {
    "domain": "--domain",
    "require": "--require",
    "relations": "--relations",
    "engine": "--engine",
    "scale": "--scale",
    "checks": "--checks",
    "order": "--order",
    "addresses": "--addresses",
    "warps": "--warps",
    "interleave": "--interleave",
    "verbose": "--verbose",
}
"""Options that say nothing about step sequences."""


def run(
    context: typer.Context,
    seed: Annotated[int, typer.Option("--seed", help="Same seed, same cases.", min=0, max=2**63 - 1)] = 0,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            "-t",
            help="System under test: builtin, vllm==X, vllm, path:DIR; +NAME plants a mutation. "
            "[default: the installed vllm, else builtin]",
        ),
    ] = None,
    targets: Annotated[
        str | None,
        typer.Option("--targets", help="Several of them, comma-separated, on the same cases: 'vllm>=0.31,builtin'."),
    ] = None,
    executor: ExecutorOption = None,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            help="How long to draw and judge cases: 60s, 5m, 2h. By the clock, from when the target is loaded; "
            "sorting findings out and shrinking them comes on top. Sequences and kernel operations get as much each. "
            "[default: 60s]",
            callback=options.callback(options.parse_seconds),
        ),
    ] = None,
    cases: Annotated[int | None, typer.Option("--cases", help="How many cases instead of a time.", min=1)] = None,
    ops: Annotated[
        str | None,
        typer.Option(
            "--ops",
            help="Operations, comma-separated (`harness names` lists them), each of which has to be judged; all: those "
            "that the target has; sequences: step sequences driven by a release's own scheduler. "
            f"[default: {','.join(options.DEFAULT_OPERATIONS)}]",
            callback=options.callback(sequences.parse_operations),
        ),
    ] = None,
    domain: Annotated[
        str,
        typer.Option(
            "--domain",
            help="reachable: what a scheduler can produce; total: all that the kernels' specification covers; both.",
            callback=options.callback(options.parse_domain),
        ),
    ] = "reachable",
    require: Annotated[
        str,
        typer.Option(
            "--require",
            help="Regimes, comma-separated (`harness names` lists them), that the run must reach, else status 3.",
            callback=options.callback(options.parse_regimes),
        ),
    ] = "",
    relations: Annotated[
        str,
        typer.Option(
            "--relations",
            help="Relations between runs to ask of each case, comma-separated (`harness names` lists them); all; none; "
            "or sample: one on every eighth case.",
            callback=options.callback(options.parse_relations),
        ),
    ] = "sample",
    engine: Annotated[
        str,
        typer.Option(
            "--engine",
            help="Where cases come from: random (seed and number give the case), or hypothesis (a search; one worker).",
            callback=options.callback(options.parse_engine),
        ),
    ] = "random",
    out: Annotated[Path, typer.Option("--out", help="Folder for repro files.")] = Path("findings"),
    workers: Annotated[int, typer.Option("--workers", "-j", help="Worker processes.", min=1, max=256)] = 1,
    scale: Annotated[
        str | None, typer.Option("--scale", help="small or full cases. Default: small for the interpreter.")
    ] = None,
    checks: options.ChecksOption = "vary",
    order: Annotated[
        str,
        typer.Option(
            "--order",
            help="Order in which the programs of a launch run, natively: natural, reversed, shuffled, or vary by case.",
            callback=options.callback(options.parse_order),
        ),
    ] = "vary",
    addresses: Annotated[
        str,
        typer.Option(
            "--addresses",
            help="Whether addresses have their highest bit set, natively: low, high, or vary by layout.",
            callback=options.callback(options.parse_addresses),
        ),
    ] = "vary",
    warps: Annotated[
        str,
        typer.Option(
            "--warps",
            help="Whether the warps of a program run together or apart, natively, the latter by a schedule drawn from "
            "a seed; or vary: apart in every sixteenth case.",
            callback=options.callback(options.parse_warps),
        ),
    ] = "vary",
    interleave: Annotated[
        str,
        typer.Option(
            "--interleave",
            help="Programs of a launch under way at a time, natively, switched before each load and store: 0 (one "
            "after the other) to 16, or vary: 4 in every eighth case.",
            callback=options.callback(options.parse_interleave),
        ),
    ] = "vary",
    case_limit: options.CaseLimitOption = None,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop judging at the first finding.")] = False,
    no_shrink: Annotated[bool, typer.Option("--no-shrink", help="Keep findings as they were drawn.")] = False,
    pins: Annotated[
        str,
        typer.Option(
            "--pins",
            help="Axes of sequences that are not drawn: runner=V1,retention=dense,... (harness names pins)",
            callback=options.callback(sequences.parse_pins),
        ),
    ] = "",
    include_known: Annotated[
        bool, typer.Option("--include-known", help="Sequences: leave known issues in, and classify what they cause.")
    ] = False,
    fixes: Annotated[
        str | None,
        typer.Option(
            "--fixes",
            help="Sequences: known issues to keep clear of, by their fixes, comma-separated (`harness names fixes`); "
            "all, or none. [default: all]",
            callback=options.callback(sequences.parse_fixes),
        ),
    ] = None,
    resume_sequences: Annotated[
        bool, typer.Option("--resume-sequences", help="Sequences: go on where the journal in --out ends.")
    ] = False,
    on_bytes: Annotated[
        bool,
        typer.Option(
            "--bytes", help="Sequences: run the target's kernels as well, and compare every byte after each step."
        ),
    ] = False,
    cases_out: Annotated[
        Path | None,
        typer.Option("--cases-out", help="Sequences: a folder for their kernel cases, which `harness replay` runs."),
    ] = None,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", help="Name regimes and kernel lines that were not reached, as --json does."),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Draw cases, run the target and the oracle side by side, save and shrink what differs.

    Exit status: 0 nothing found, 1 findings, 2 bad usage or a file that cannot be written, 3 something
    required was not reached, 4 the harness failed, 130 interrupted.
    """
    if budget is not None and cases is not None:
        raise typer.BadParameter("--budget and --cases exclude each other")
    if scale not in (None, "small", "full"):
        raise typer.BadParameter(f"unknown scale {scale!r}; known: small, full")
    if include_known and fixes is not None:
        raise typer.BadParameter("--include-known and --fixes exclude each other: it stands for --fixes none")
    if target is not None and targets is not None:
        raise typer.BadParameter("--target and --targets exclude each other")
    if engine == "hypothesis" and targets is not None:
        raise typer.BadParameter("the hypothesis engine learns from one target: it cannot give several the same cases")
    if engine == "hypothesis" and workers > 1:
        raise typer.BadParameter("the hypothesis engine has one worker: it learns from what it has tried")

    named = ops is not None and ops.strip() != options.ALL
    ops, wants_sequences = sequences.split_operations(ops or ",".join(options.DEFAULT_OPERATIONS))
    if not wants_sequences:
        _refuse(context, _OF_SEQUENCES, "only with --ops sequences")
    elif not ops:
        _refuse(context, _OF_KERNELS, "not with step sequences alone, about which it says nothing")
        if executor is not None and not on_bytes:
            raise typer.BadParameter("--executor says how kernels run, and sequences run them only with --bytes")
    if wants_sequences and targets is not None:
        raise typer.BadParameter("step sequences take one --target, not --targets")
    from harness.repro import require_writable

    for folder in (out, cases_out):
        if folder is not None:
            require_writable(folder)
    status = 0
    if wants_sequences:
        seconds = None if cases is not None else options.parse_seconds(budget) if budget else DEFAULT_BUDGET
        status = sequences.run_sequences(
            target=target,
            seed=seed,
            pins=pins,
            cases=cases,
            seconds=seconds,
            out=out,
            workers=workers,
            shrink=not no_shrink,
            fail_fast=fail_fast,
            fixes="none" if include_known else fixes or options.ALL,
            resume=resume_sequences,
            limit=None if case_limit is None else options.parse_seconds(case_limit),
            json=json,
            bytes_on=options.executor_or_default(executor) if on_bytes else None,
            cases_out=cases_out,
        )
        if not ops:
            sys.exit(status)

    from harness.campaign.campaign import Settings, useful_workers
    from harness.engines.random import Recipe
    from harness.kernels.targets.registry import prepare
    from harness.kernels.targets.selection import select

    names = select(targets) if targets is not None else (options.target_or_default(target),)
    options.announce_downloads(names)
    for name in names:
        prepare(name, options.announce)
    chosen = options.executor_or_default(executor)
    recipe = Recipe(
        seed=seed,
        domains=options.parse_domain(domain),
        operations=options.parse_operations(ops),
        scale=("small" if chosen == "interpreter" else "full") if scale is None else scale,  # type: ignore[arg-type]
        order=options.parse_order(order),
        checks=options.parse_check_policy(checks),
        addresses=options.parse_addresses(addresses),
        interleave=options.parse_interleave(interleave),
        warps=options.parse_warps(warps),
    )
    settings = Settings(
        target=names[0],
        executor=chosen,
        recipe=recipe,
        engine=options.parse_engine(engine),
        out=out,
        cases=cases,
        budget_seconds=None if cases is not None else options.parse_seconds(budget) if budget else DEFAULT_BUDGET,
        workers=workers,
        case_seconds=options.case_seconds(case_limit, chosen),
        require=options.parse_regimes(require),
        named=named,
        relations=options.parse_relations(relations),
        fail_fast=fail_fast,
        shrink=not no_shrink,
    )
    started = useful_workers(settings)
    if started > 2 * (os.cpu_count() or 1):
        options.announce(
            f"{started} workers share {os.cpu_count()} processors: they start slowly, and nothing gets faster"
        )
    report = "json" if json else "verbose" if verbose else "terminal"
    of_kernels = follow(settings, report) if targets is None else follow_several(settings, names, report)
    sys.exit(worst((status, of_kernels)))


def _refuse(context: typer.Context, refused: dict[str, str], why: str) -> None:
    """Raise typer.BadParameter if any of the options `refused` (by parameter) was given."""
    given = [
        option
        for name, option in refused.items()
        if (source := context.get_parameter_source(name)) is not None and source.name == "COMMANDLINE"
    ]
    if given:
        raise typer.BadParameter(f"{' and '.join(given)}: {why}")


def follow_several(settings: object, targets: Sequence[str], report: str) -> int:
    """Run a campaign on several targets; the exit status is 1 if any has findings, else 3 if any missed something."""
    from harness.campaign.campaign import Settings
    from harness.campaign.events import Event, Notice
    from harness.campaign.several import run_several
    from harness.reports.compared import comparison_json, print_comparison
    from harness.reports.registry import reporter

    assert isinstance(settings, Settings)

    def notice(event: Event) -> None:
        if isinstance(event, Notice):
            options.announce(event.text)

    if report == "json":
        comparison = run_several(settings, targets, notice)
        print(comparison_json(comparison))
    else:
        with reporter(report) as handle:
            comparison = run_several(settings, targets, handle)
        print_comparison(comparison)
    return comparison.exit_status


def follow(settings: object, report: str) -> int:
    """Run a campaign under a report; the exit status."""
    from harness.campaign.campaign import Campaign, Settings
    from harness.campaign.events import CampaignFinished
    from harness.reports.registry import reporter

    assert isinstance(settings, Settings)
    status = 4
    with reporter(report) as handle:
        for event in Campaign(settings).run():
            handle(event)
            if isinstance(event, CampaignFinished):
                status = event.summary.exit_status
    return status

"""`harness run`: a campaign."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from harness.cli import options
from harness.cli.options import ExecutorOption, JsonOption, TargetOption

DEFAULT_BUDGET = 60.0


def run(
    seed: Annotated[int, typer.Option("--seed", help="Same seed, same cases.", min=0, max=2**63 - 1)] = 0,
    target: TargetOption = "builtin",
    executor: ExecutorOption = None,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            help="How long to judge cases: 60s, 5m, 2h. [default: 60s]",
            callback=options.callback(options.parse_seconds),
        ),
    ] = None,
    cases: Annotated[int | None, typer.Option("--cases", help="How many cases instead of a time.", min=1)] = None,
    ops: Annotated[
        str,
        typer.Option("--ops", help="Operations, comma-separated.", callback=options.callback(options.parse_operations)),
    ] = ",".join(options.DEFAULT_OPERATIONS),
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
            help="Regimes, comma-separated, that the run must reach (else status 3).",
            callback=options.callback(options.parse_regimes),
        ),
    ] = "",
    relations: Annotated[
        str,
        typer.Option(
            "--relations",
            help="Relations between runs to ask of each case, comma-separated; all; none; or sample: one on every "
            "eighth case.",
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
    checks: options.ChecksOption = "memory",
    order: Annotated[
        str,
        typer.Option(
            "--order",
            help="Order in which the programs of a launch run, natively: natural, reversed, shuffled, or vary by case.",
            callback=options.callback(options.parse_order),
        ),
    ] = "vary",
    case_limit: options.CaseLimitOption = None,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop judging at the first finding.")] = False,
    no_shrink: Annotated[bool, typer.Option("--no-shrink", help="Keep findings as they were drawn.")] = False,
    json: JsonOption = False,
) -> None:
    """Draw cases, run the target and the oracle side by side, save and shrink what differs.

    Exit status: 0 nothing found, 1 findings, 2 bad usage, 3 something required was not reached, 4 harness failed.
    """
    if budget is not None and cases is not None:
        raise typer.BadParameter("--budget and --cases exclude each other")
    if scale not in (None, "small", "full"):
        raise typer.BadParameter(f"unknown scale {scale!r}; known: small, full")
    if engine == "hypothesis" and workers > 1:
        raise typer.BadParameter("the hypothesis engine has one worker: it learns from what it has tried")

    from harness.campaign.campaign import Settings
    from harness.engines.random import Recipe
    from harness.kernels.targets.registry import prepare

    prepare(target, options.announce)
    chosen = options.executor_or_default(executor)
    recipe = Recipe(
        seed=seed,
        domains=options.parse_domain(domain),
        operations=options.parse_operations(ops),
        scale=("small" if chosen == "interpreter" else "full") if scale is None else scale,  # type: ignore[arg-type]
        order=options.parse_order(order),
    )
    settings = Settings(
        target=target,
        executor=chosen,
        recipe=recipe,
        engine=options.parse_engine(engine),
        out=out,
        cases=cases,
        budget_seconds=None if cases is not None else options.parse_seconds(budget) if budget else DEFAULT_BUDGET,
        workers=workers,
        case_seconds=options.case_seconds(case_limit, chosen),
        checks=options.parse_checks(checks),
        require=options.parse_regimes(require),
        relations=options.parse_relations(relations),
        fail_fast=fail_fast,
        shrink=not no_shrink,
    )
    sys.exit(follow(settings, "json" if json else "terminal"))


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

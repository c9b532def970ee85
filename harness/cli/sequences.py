"""The commands over step sequences: what run, replay, show and shrink do when their subject is a sequence."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any, TextIO, get_args, get_type_hints

import msgspec
import typer

from harness.case import InvalidCase
from harness.cli import options
from harness.cli.main import Interrupted
from harness.reports.console import printable
from harness.reports.words import counted
from harness.repro.sequences import SequenceRepro
from harness.suggestions import unknown

SEQUENCES = "sequences"
"""The name among operations."""


def say(text: str, file: TextIO | None = None) -> None:
    """Print what comes from files and from production code: no control character of theirs reaches a terminal."""
    print(printable(text), file=file)


def split_operations(text: str) -> tuple[str, bool]:
    """The kernel operations of a comma-separated list, and whether sequences were among them."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    return ",".join(name for name in names if name != SEQUENCES), SEQUENCES in names


def parse_operations(text: str) -> None:
    """Refuse what is neither an operation nor sequences. Raises typer.BadParameter."""
    kernels, sequences = split_operations(text)
    if kernels or not sequences:
        options.parse_operations(kernels)


def parse_pins(text: str) -> Any:
    """Pins of `name=value` pairs, comma-separated: runner=V1,asynchronous=true,retention=dense,...

    Raises typer.BadParameter.
    """
    from harness.generators.sequences.configurations import Pins

    values: dict[str, object] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = pair.partition("=")
        if not equals or name not in Pins.__struct_fields__:
            raise typer.BadParameter(f"{pair!r} is no pin; write NAME=VALUE with {', '.join(Pins.__struct_fields__)}")
        if name in values:
            raise typer.BadParameter(f"{name} is pinned twice")
        if value not in (known := _known_values(name)):
            raise typer.BadParameter(unknown(name, [value], known))
        values[name] = {"true": True, "false": False}.get(value, int(value) if value.isdigit() else value)
    try:
        return msgspec.convert(values, Pins)
    except msgspec.ValidationError as error:
        raise typer.BadParameter(str(error)) from error


def _known_values(name: str) -> tuple[str, ...]:
    """What a pin may be set to."""
    from harness.generators.sequences.configurations import Pins

    kinds = [kind for kind in get_args(get_type_hints(Pins)[name]) if kind is not type(None)]
    return ("true", "false") if kinds == [bool] else tuple(str(value) for kind in kinds for value in get_args(kind))


def parse_fixes(text: str) -> tuple[str, ...]:
    """Names of a comma-separated list of fixes, `all` or `none`. Raises typer.BadParameter."""
    from harness.sequences.controls import FIXES
    from harness.sequences.known import DEFAULT_FIXES

    if text in (options.ALL, "none"):
        return DEFAULT_FIXES if text == options.ALL else ()
    names = [name.strip() for name in text.split(",") if name.strip()]
    options.require_alone(names, options.ALL, "none")
    wrong = [name for name in names if name not in FIXES]
    if wrong or not names:
        raise typer.BadParameter(unknown("fix", wrong or [text], (*FIXES, options.ALL, "none")))
    return tuple(fix for fix in DEFAULT_FIXES if fix in names)


def sequence_target(name: str) -> str:
    """The release whose scheduler runs: the target if it has one, else the newest that the harness knows."""
    from harness.kernels.targets.vllm.family import RELEASES

    return f"vllm=={RELEASES[-1]}" if name in ("", "builtin") else name


def require(target: str) -> str:
    """The target as messages name it. Raises UnknownTarget, with one line, if sequences cannot run here."""
    from harness.kernels.targets.vllm.scheduling.sources import require_packages, whole_tree

    require_packages()
    return whole_tree(target, options.announce).origin


def run_sequences(
    *,
    target: str | None,
    seed: int,
    pins: str,
    cases: int | None,
    seconds: float | None,
    out: Path,
    workers: int,
    shrink: bool,
    fail_fast: bool,
    fixes: str,
    resume: bool,
    json: bool,
    limit: float | None = None,
    bytes_on: str | None = None,
    cases_out: Path | None = None,
) -> int:
    """Run a campaign of sequences; the exit status. `limit`: seconds for one sequence, if not the usual; `bytes_on`:
    the executor that runs their kernels on bytes, if any; `cases_out`: where their kernel cases go.

    What follows a plus sign in the target is a planted fault of sequences, or else a mutation of the kernels.
    """
    from harness.kernels.targets.registry import prepare
    from harness.sequences.campaign import SequenceCampaign
    from harness.sequences.controls import Controls
    from harness.sequences.journal import CannotGoOn
    from harness.sequences.kernels import KernelChoice
    from harness.sequences.known import DEFAULT_FIXES
    from harness.sequences.recipe import SequenceRecipe
    from harness.sequences.settings import SequenceSettings

    chosen_fixes = parse_fixes(fixes)
    name, _, planted = (target or "").partition("+")
    faults, mutations = _split_planted(planted, bytes_on is not None)
    chosen = sequence_target(name)
    origin = require(chosen)
    if name == "builtin" and bytes_on is None:
        options.announce(f"builtin has no scheduler: that of {chosen} runs, and no kernels without --bytes")
    kernels = None
    if bytes_on is not None:
        kernels = KernelChoice("+".join([name or chosen, *mutations]), bytes_on)
        prepare(kernels.target, options.announce)
    settings = SequenceSettings(
        target=chosen,
        recipe=SequenceRecipe(seed, parse_pins(pins)),
        controls=Controls(faults=faults, fixes=chosen_fixes),
        out=out,
        kernels=kernels,
        cases=cases_out,
        sequences=cases,
        seconds=seconds,
        workers=workers,
        shrink=shrink,
        fail_fast=fail_fast,
        resume=resume,
        limit=limit,
        named_fixes=() if chosen_fixes == DEFAULT_FIXES else chosen_fixes,
    )
    try:
        campaign = SequenceCampaign(settings, (lambda _: None) if json else say, options.announce)
    except CannotGoOn as refused:
        raise typer.BadParameter(str(refused), param_hint="--resume-sequences") from refused
    if not json:
        budget = f"{seconds:g} s" if cases is None else counted(cases, "sequence")
        pinned = f"pins {pins}" if pins.strip() else "no pins"
        planted = "+".join([chosen, *faults])
        say(f"{planted}: step sequences, seed {seed}, {pinned}, {budget}, {counted(workers, 'worker')}")
    options.announce(f"loading {origin} ...")
    try:
        summary = campaign.run()
    except KeyboardInterrupt:
        raise Interrupted(campaign.so_far) from None
    if json:
        print(msgspec.json.encode(summary).decode())
    else:
        _print_summary(summary)
    if campaign.unsaved is not None:
        raise campaign.unsaved
    return summary.exit_status


def _split_planted(planted: str, has_kernels: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Planted faults of sequences, and mutations of the kernels that they run through."""
    from harness.sequences.controls import FAULTS

    names = tuple(filter(None, planted.split("+")))
    mutations = tuple(name for name in names if name not in FAULTS) if has_kernels else ()
    return tuple(name for name in names if name not in mutations), mutations


def _print_summary(summary: Any) -> None:
    skipped = sum(summary.skipped.values())
    more = f" ({skipped} more skipped)" if skipped else ""
    say(
        f"{summary.target}: {counted(summary.sequences - skipped, 'sequence')}{more}, "
        f"{counted(summary.steps, 'step')} in "
        f"{summary.seconds:.0f} s ({summary.steps_per_second:.0f} steps a second of processor time)"
    )
    for name, count in summary.counters.items():
        if name not in summary.not_run:
            say(f"  {name:28} {count:10}")
    for reason, count in summary.skipped.items():
        say(f"  skipped: {reason} ({counted(count, 'sequence')})")
    if summary.harness_failures:
        say(f"the harness itself failed in {counted(summary.harness_failures, 'sequence')}: please report them")
    if summary.ended_early is not None:
        say(f"ended early: {summary.ended_early}")
    for line in summary.missing:
        say(f"MISSING {line}")
    for line in summary.not_run:
        say(f"NOT RUN {line} ({counted(summary.counters[line], 'sequence')})")
    fixes = [fix for fix in summary.fixes if fix not in summary.fixes_without_effect]
    if fixes:
        say("kept clear of known issues by fixes (docs/findings.md; --include-known leaves the issues in):")
        for line in textwrap.wrap(", ".join(fixes), 98, break_on_hyphens=False):
            say(f"  {line}")
    say(summary.answer)


def replay_sequence(
    file: Path,
    repro: SequenceRepro,
    target: str | None,
    json: bool,
    executor: str | None = None,
    limit: float | None = None,
) -> int:
    """Run the events of a file again: FAILED (1), FIXED (0) or SKIPPED (3)."""
    from harness.sequences.process import SequenceProcess
    from harness.sequences.verdicts import not_judged, signature_of

    chosen, beside = _where(file, repro, target, executor)
    with SequenceProcess(chosen, beside, limit) as child:
        child.wait_ready()
        result = child.check(repro.sequence, _controls(repro))
    reason = not_judged(repro.signature, result)
    answer = "FAILED" if result.violation else "FIXED" if reason is None else "SKIPPED"
    same = result.violation is not None and signature_of(result.violation) == repro.signature
    said = (
        result.violation.summary if result.violation else reason or f"{counted(result.steps, 'step')} without violation"
    )
    if json:
        answered = {"file": str(file), "answer": answer, "same": same, "target": chosen, "summary": said}
        print(msgspec.json.encode({**answered, "result": msgspec.to_builtins(result)}).decode())
    else:
        say(f"{answer}{'' if same or answer != 'FAILED' else ' (another signature)'}: {file} on {chosen}\n  {said}")
    return {"FIXED": 0, "FAILED": 1, "SKIPPED": 3}[answer]


def shrink_sequence_file(
    file: Path, repro: SequenceRepro, target: str | None, out: Path | None, executions: int, json: bool
) -> int:
    """Shrink a file's events, keeping its signature: 1 if it still fails, else 0 or 3. See harness.cli.shrink."""
    from harness.repro import ShrinkRecord, write_repro
    from harness.sequences.classifying import classify, classify_again, same_finding
    from harness.sequences.process import SequenceProcess
    from harness.sequences.shrinking import shrink_sequence
    from harness.sequences.verdicts import evidence_of, not_judged, signature_of

    (chosen, beside), controls = _where(file, repro, target), _controls(repro)
    with SequenceProcess(chosen, beside) as child:
        child.wait_ready()
        result = child.check(repro.sequence, controls)
        if result.violation is None:
            reason = not_judged(repro.signature, result)
            answer = f"FIXED: {file} does not fail on {chosen}" if reason is None else f"SKIPPED: {file}: {reason}"
            say(answer, file=sys.stderr)
            return 0 if reason is None else 3
        signature = signature_of(result.violation)
        issue = classify(child, repro.sequence, controls, str(signature))
        shrunk = shrink_sequence(repro.sequence, same_finding(child, str(signature), issue, controls), executions)
        final = child.check(shrunk.case, controls)
        issue = classify_again(child, shrunk.case, controls, str(signature), issue)
    assert final.violation is not None
    record = ShrinkRecord(executions=shrunk.executions, seconds=round(shrunk.seconds, 3), complete=shrunk.complete)
    smaller = msgspec.structs.replace(
        repro,
        sequence=shrunk.case,
        signature=signature,
        evidence=evidence_of(final.violation, final.trace),
        issue=issue,
        shrink=record,
    )
    same = (smaller.sequence, smaller.signature, issue) == (repro.sequence, repro.signature, repro.issue)
    if out is None and same:
        path = file  # it holds the minimal sequence already
    else:
        path = out if out is not None else file.with_suffix(".min.json")
        write_repro(path, smaller)
    if json:
        print(msgspec.json.encode({"repro": str(path), "signature": str(signature), "shrink": record}).decode())
    else:
        nothing = "nothing to take away, " if path == file else ""
        took = f"{counted(len(shrunk.case.events), 'event')}, {counted(shrunk.executions, 'execution')}"
        say(f"{path}: {nothing}{signature}, {took}")
    return 1


def _where(file: Path, repro: SequenceRepro, target: str | None, executor: str | None = None) -> tuple[str, Any]:
    """The target that a file runs on, and what runs beside it. Raises InvalidCase, which names the file, or
    UnknownTarget."""
    from harness.repro import naming

    with naming(file):
        return _target_of(repro, target), _beside(repro, target, executor)


def _target_of(repro: SequenceRepro, target: str | None) -> str:
    from harness.repro.replay import unnamed_target

    name = sequence_target(target.partition("+")[0]) if target is not None else repro.origin.target
    if target is None and name.partition("+")[0] in ("", "builtin"):
        on = f"{name!r}, which has no scheduler" if name else "no target"
        raise InvalidCase(f"the file's origin names {on}: say with --target on which release the sequence is to run")
    if target is None and not name.startswith("vllm=="):
        raise unnamed_target(name)
    require(name)
    return name


def _beside(repro: SequenceRepro, target: str | None, executor: str | None = None) -> Any:
    """The kernels that a file was recorded with, those of another target if one is named; none if there were none."""
    from harness.kernels.targets.registry import prepare
    from harness.repro.replay import unnamed_target
    from harness.sequences.kernels import Beside, KernelChoice

    if repro.kernels is None:
        return Beside()
    name = repro.kernels if target is None else target
    base = name.split("+", 1)[0]
    if target is None and base != "builtin" and not base.startswith("vllm=="):
        raise unnamed_target(name)
    prepare(name, options.announce)
    return Beside(KernelChoice(name, options.executor_or_default(executor)))


def _controls(repro: SequenceRepro) -> Any:
    from harness.sequences.controls import Controls

    return Controls(faults=repro.faults, fixes=repro.fixes)

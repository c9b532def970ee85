"""`harness confirm`: does a whole engine say wrong tokens?"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from harness.case import InvalidCase
from harness.cli import options
from harness.cli.options import JsonOption
from harness.exit_status import FINDINGS, NOT_REACHED, NOTHING_FOUND
from harness.files import write_whole

if TYPE_CHECKING:
    from harness.end_to_end.confirming import Confirmation
    from harness.repro import SequenceRepro


def confirm(
    files: Annotated[list[Path], typer.Argument(help="Repro files of step sequences, or folders of them.")],
    targets: Annotated[
        str,
        typer.Option("--targets", "-t", help="Releases or checkouts whose engine is run, comma-separated."),
    ] = "vllm==0.32.0",
    python: Annotated[
        str | None,
        typer.Option("--python", help="An interpreter whose environment has vLLM, used instead of a managed one."),
    ] = None,
    carried_out: Annotated[
        Path | None, typer.Option("--carried-out", help="Folder for the sequences as the engine ran them.")
    ] = None,
    scripts_out: Annotated[
        Path | None,
        typer.Option("--scripts-out", help="Folder for a script of each confirmed finding that needs vLLM alone."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Run findings of step sequences on a whole engine with a tiny model, next to the same model run plainly.

    CONFIRMED (status 1): the engine says other tokens, or its kernels leave their memory. NOT CONFIRMED (0): it says
    the same tokens. CANNOT (3), with a reason: the sequence cannot be carried over to blocks of 32 tokens, no carried
    form fails on the symbolic device, or the engine refuses it.

    `harness engine fetch` makes the environments. A release or a checkout without a CPU build runs over the compiled
    parts of the nearest one."""
    from harness.end_to_end.builds import build_of
    from harness.end_to_end.confirming import Confirmer
    from harness.end_to_end.engine_process import EngineProcess
    from harness.end_to_end.engine_script import engine_script
    from harness.sequences.subject import require_driven
    from harness.sequences.worker import SequenceWorker

    repros = [(file, _read(file)) for file in _files(files)]
    answers: list[Confirmation] = []
    for target in options.split(targets):
        require_driven(target, options.announce)
        build = build_of(target, options.announce, python)
        with (
            contextlib.closing(SequenceWorker(target, on_notice=options.announce)) as symbolic,
            contextlib.closing(EngineProcess(build, on_notice=_quiet)) as engine,
        ):
            options.wait_ready(symbolic)
            options.wait_ready(engine)
            if not json:
                print(f"{target}: {build.description}")
                for note in build.notes:
                    print(f"  {note}")
            confirmer = Confirmer(target, build, engine, symbolic, lambda how: None)
            for file, repro in repros:
                answer = confirmer.confirm(repro)
                answers.append(answer)
                _print(file, answer, json)
                name = f"{file.stem}-{target.replace('vllm==', '').replace('/', '_')}"
                if carried_out is not None and answer.carried is not None:
                    text = msgspec.json.format(msgspec.json.encode(answer.carried), indent=1)
                    write_whole(carried_out / f"{name}.json", text)
                if scripts_out is not None and answer.wrong and answer.carried is not None:
                    title = f"{answer.issue or repro.signature.violation}: an engine of vLLM says wrong tokens"
                    script = engine_script(answer.carried, title)
                    write_whole(scripts_out / f"{name}.py", script.rstrip("\n").encode())
    if answers and not json:
        _print_replaced(answers)
    given = {answer.answer for answer in answers}
    sys.exit(FINDINGS if "CONFIRMED" in given else NOT_REACHED if "CANNOT" in given else NOTHING_FOUND)


def _files(paths: list[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        found += sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not found:
        raise InvalidCase(f"{paths[0]}: no repro file in this folder")
    return found


def _read(file: Path) -> SequenceRepro:
    from harness.repro import SequenceRepro, read_any

    _, repro = read_any(file)
    if not isinstance(repro, SequenceRepro):
        raise InvalidCase(f"{file}: only findings of step sequences are carried over to a whole engine")
    return repro


def _print(file: Path, answer: Confirmation, json: bool) -> None:
    if json:
        fields = msgspec.to_builtins(answer)
        print(msgspec.json.encode({"file": str(file), **fields, "as_predicted": answer.as_predicted}).decode())
        return
    issue = f" [{answer.issue}]" if answer.issue else ""
    print(f"{answer.answer} {file}{issue} on {answer.target}")
    if answer.reason:
        print(f"  {answer.reason}")
    for wrong in answer.wrong[:4]:
        print(f"  {wrong.text}")
    if len(answer.wrong) > 4:
        print(f"  and {len(answer.wrong) - 4} more requests")
    for fault in answer.kernel_faults[:4]:
        print(f"  a fused kernel: {fault}")
    if answer.raised:
        print(f"  {answer.raised}")
    if answer.predicted:
        same = ", the same request" if answer.as_predicted else ""
        print(f"  the symbolic device says{same}: {answer.predicted}")
        print(f"  carried over to blocks of 32: {answer.how}; {answer.steps} steps, form {answer.forms}")
    if answer.ties:
        print(f"  {answer.ties} requests differ where two tokens are as good (ties), which says nothing")


def _print_replaced(answers: list[Confirmation]) -> None:
    replaced = list(dict.fromkeys(line for answer in answers for line in answer.replaced))
    if replaced:
        print("replaced in these engines:")
        for line in replaced:
            print(f"  {line}")


def _quiet(text: str) -> None:
    """Warnings of the release's own imports say nothing about findings."""

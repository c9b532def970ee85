"""The command line: thin commands over the rooms. Nothing here imports torch or triton; workers do.

Exit statuses: 0 nothing found / FIXED, 1 findings / FAILED, 2 bad usage or invalid input, 3 a required regime was never
reached or a requested operation judged no case, 4 the harness itself failed, 130 interrupted, 141 the output was not
read (as for any tool in a pipe: 128 and the signal's number), 143 ended by SIGTERM.
"""

from __future__ import annotations

import io
import os
import sys
import warnings
from typing import Any, cast

import typer

from harness import __version__
from harness.case import InvalidCase
from harness.cli import (
    bench,
    bisect,
    cache,
    config,
    confirm,
    corpus,
    demo,
    diff,
    doctor,
    engine,
    export,
    known,
    merge,
    names,
    replay,
    report,
    show,
    shrink,
    sweep,
    targets,
)
from harness.cli import run as running
from harness.cli.run_command import RunCommand
from harness.exit_status import BAD_INPUT, HARNESS_FAILED, INTERRUPTED, UNREAD, Interrupted
from harness.interruption import Interruption
from harness.kernels.targets.releases import OFFLINE_VARIABLE
from harness.refusal import Refusal
from harness.reports.console import printable
from harness.worker.losses import WorkerError

_UsageProblem = cast(
    type[Exception], next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
)
"""The exception of typer for a wrong command line, which has no public name."""

RUN_STATUS = (
    "Exit status: 0 nothing found, 1 findings, 2 bad usage or a file that cannot be written, 3 something required was "
    "not reached, 4 the harness failed, 130 interrupted, 143 ended by SIGTERM."
)

app = typer.Typer(
    name="harness",
    help="Find wrong bytes, out-of-bounds accesses and races in the fused Triton kernels that move Mamba state between "
    "cache blocks, and turn each finding into the smallest file that still shows it.",
    epilog="Exit status: 0 nothing found or FIXED; 1 findings or FAILED; 2 bad usage or invalid input; 3 a required "
    "regime was never reached, or an operation judged no case; 4 the harness itself failed; 130 interrupted; "
    "141 the output was not read; 143 ended by SIGTERM.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def _version(
    version: bool = typer.Option(False, "--version", help="Print the version and stop."),
    offline: bool = typer.Option(
        False, "--offline", help="Download nothing: take releases only from the cache (as HARNESS_OFFLINE=1)."
    ),
) -> None:
    if offline:
        os.environ[OFFLINE_VARIABLE] = "1"  # workers inherit it
    if version:
        print(__version__)
        raise typer.Exit


# Each has its own line in the list of commands, since the first sentence of its help may be longer than a line.
app.command("run", cls=RunCommand, epilog=RUN_STATUS, short_help="Draw, run, compare, save and shrink.")(running.run)
app.command("merge", epilog=RUN_STATUS, short_help="Put the shards of a campaign together.")(merge.merge)
app.command("report", short_help="Write reports of a campaign that is over.")(report.report)
app.command("config", short_help="Print the options of a profile.")(config.config)
app.command("diff", short_help="Compare the findings of two campaigns.")(diff.diff)
app.command("replay", short_help="Run a repro file: FAILED, FIXED or SKIPPED.")(replay.replay)
app.command("shrink", short_help="Make a repro file smaller.")(shrink.shrink)
app.command("sweep", short_help="Replay repro files on many releases.")(sweep.sweep)
app.command("bisect", short_help="Find the commit that brought a fault.")(bisect.bisect)
app.command("show", short_help="Print a repro file for people.")(show.show)
app.command("export", short_help="Write a finding for somebody without the harness.")(export.export)
app.command("targets", short_help="List what can be tested, and faults to plant.")(targets.targets)
app.command("names", short_help="List operations, regimes, relations, known issues, pins.")(names.names)
app.command("doctor", short_help="Report what this machine can do.")(doctor.doctor)
app.command("demo", short_help="Find a planted bug, then fuzz a release.")(demo.demo)
app.command("confirm", short_help="Run findings of step sequences on a whole engine.")(confirm.confirm)
app.add_typer(corpus.app, name="corpus", short_help="Keep the repro files that runs replay first.")
app.add_typer(known.app, name="known", short_help="Mute findings that are known.")
app.add_typer(engine.app, name="engine", short_help="Make, list or remove environments with CPU builds of vLLM.")
app.add_typer(bench.app, name="bench", short_help="Measure executors, campaigns and planted faults.")
app.add_typer(cache.app, name="cache", short_help="List, fetch or remove cached releases.")


def run(interruption: Interruption) -> None:
    """Run the requested command, and exit with its status. Any error that a user can fix is reported in one clear line.

    `interruption` is the cause of a KeyboardInterrupt."""

    def interrupted(message: str = "") -> int:
        word = interruption.word
        return _complain(f"{word}: {message}" if message else word, interruption.status)

    try:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")  # do not fail because of a narrow encoding
        warnings.showwarning = _warn
        status = _run()
        if sys.stdout is not None:
            sys.stdout.flush()  # while its failure can still be reported
        sys.exit(interrupted() if status == INTERRUPTED else status)
    except _UsageProblem as error:
        sys.exit(_explain(error))
    except Interrupted as interrupt:
        sys.exit(interrupted(str(interrupt)))
    except typer.Abort:
        sys.exit(interrupted())
    except Refusal as refusal:
        sys.exit(_complain(str(refusal), refusal.exit_status))
    except InvalidCase as error:
        sys.exit(_complain(str(error), BAD_INPUT))
    except BrokenPipeError:
        # Buffered output can no longer be written: Python would complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(UNREAD)  # silently: `harness show FILE | head` is not a mistake
    except OSError as error:
        _drop_unwritten()
        # If renaming failed, the second name is the one that the user gave.
        sys.exit(
            _complain(f"{error.filename2 or error.filename or ''}: {error.strerror or error}".lstrip(": "), BAD_INPUT)
        )
    except WorkerError as error:
        print(printable(str(error)), file=sys.stderr)
        sys.exit(_complain("the harness itself failed; the lines above say where", HARNESS_FAILED))
    except KeyboardInterrupt:
        sys.exit(interrupted())


def _drop_unwritten() -> None:
    """Drop buffered standard output that cannot be written, for example on a full disk: Python would try once more at
    exit, and end with another status."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _run() -> Any:
    """Run the requested command. Returns its exit status, as sys.exit takes it."""
    try:
        # Not standalone: typer would print three lines for a typing mistake, and its versions differ about Ctrl-C.
        return app(prog_name="harness", standalone_mode=False)
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # typer turns it into status 1, which means findings here
            raise end.__context__ from None
        return end.code


def _explain(error: Any) -> int:
    """Print one line about a wrong command line, or the help of a command without arguments."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "harness"
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error.format_message(), file=sys.stderr)
        return BAD_INPUT
    return _complain(f"{error.format_message()} (see {command} --help)", BAD_INPUT)


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning in one line, as workers do; its place in the code is of no use at a terminal."""
    print(printable(f"harness: {' '.join(str(message).split())}"), file=sys.stderr)


def _complain(text: str, status: int) -> int:
    print(printable(f"harness: {' '.join(text.split())}"), file=sys.stderr)
    return status

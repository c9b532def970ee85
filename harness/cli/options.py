"""Options that several commands share, and how their texts are read: each once, by the library of the command line."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from harness.case import CHECKS, DEFAULT_CHECKS, Check
from harness.cli.announcing import Announcer
from harness.suggestions import unknown

if TYPE_CHECKING:
    from harness.worker.process import WorkerProcess

ALL, NONE = "all", "none"

announce = Announcer()

Value = TypeVar("Value")


def option(*names: str, help: str, parser: Callable[[str], Any], metavar: str = "TEXT") -> Any:
    """An option whose text is read by `parser`, which raises typer.BadParameter."""
    return typer.Option(*names, help=help, parser=parser, metavar=metavar)


def parse_seconds(text: str) -> float:
    """Seconds of `90`, `60s`, `5m` or `2h`. Raises typer.BadParameter."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", str(text).strip())
    if not match or not 0 < float(match[1]) < math.inf:
        raise typer.BadParameter(f"{text!r} is no time: write 60s, 5m or 2h")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def split(text: str) -> list[str]:
    """The names of a comma-separated list, each once."""
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def require_alone(names: Sequence[str], *words: str) -> None:
    """Raise typer.BadParameter if a word that stands for a whole list is part of one."""
    for word in words:
        if word in names and len(names) > 1:
            raise typer.BadParameter(f"{word!r} stands alone: it is a whole list, not one of several names")


def choice(kind: str, known: Iterable[Value], *, text_of: Callable[[Value], str] = str) -> Callable[[str], Value]:
    """A parser of one of some known words."""
    words = {text_of(value): value for value in known}

    def parse(text: str) -> Value:
        if text not in words:
            raise typer.BadParameter(unknown(kind, [text], words))
        return words[text]

    return parse


def choices(kind: str, text: str, known: Iterable[str], *whole: str) -> tuple[str, ...]:
    """The names of a comma-separated list, each once. `whole` are words that stand for a list; they are for the caller
    to read. Raises typer.BadParameter for names that are not known, or none."""
    names, right = split(text), (*known, *whole)
    require_alone(names, *whole)
    wrong = [name for name in names if name not in right]
    if wrong or not names:
        raise typer.BadParameter(unknown(kind, wrong or [text], right))
    return tuple(dict.fromkeys(names))


def parse_checks(text: str) -> tuple[Check, ...]:
    """What an instrumented executor watches: a comma-separated list, `all` or `none`. Raises typer.BadParameter."""
    names = choices("check", text, CHECKS, ALL, NONE)
    if names in ((ALL,), (NONE,)):
        return DEFAULT_CHECKS if names == (ALL,) else ()
    if "undefined" in names and "memory" not in names:
        raise typer.BadParameter("undefined takes memory: bytes are followed only inside what may be touched")
    if "identical-stores" in names and "races" not in names:
        raise typer.BadParameter("identical-stores takes races")
    return tuple(check for check in CHECKS if check in names)


def wait_ready(worker: WorkerProcess) -> None:
    """Wait for a worker to be ready, and say now and then that it still loads. Raises as `WorkerProcess.loading`."""
    for line in worker.loading():
        announce(line)


def target_or_default(name: str | None) -> str:
    """The target asked for, or the installed vllm, or our own kernels where there is none."""
    from harness.kernels.targets.base import UnknownTarget
    from harness.kernels.targets.registry import parse

    if name is not None:
        return name
    try:
        return parse("vllm").text
    except UnknownTarget:
        return "builtin"


def executor_or_default(name: str | None) -> str:
    """The executor asked for, or the fastest that this machine has. Raises UnavailableExecutor."""
    from harness.kernels.executors.registry import default_executor_name, executor_class

    if name is None:
        return default_executor_name()
    executor_class(name)
    return name


TargetOption = Annotated[
    str, typer.Option("--target", "-t", help="System under test: builtin, vllm==X, ...; +NAME plants a fault.")
]
RecordedTargetOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        "-t",
        help="System under test. Default: the one that the file was found on, if that is builtin or a release; any "
        "other, such as path:DIR, has to be named.",
    ),
]
ExecutorOption = Annotated[
    str | None,
    typer.Option("--executor", "-e", help="How kernels run: cuda, native or interpreter. Default: the fastest here."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, nothing else.")]
CaseLimitOption = Annotated[
    float | None,
    option(
        "--case-limit",
        parser=parse_seconds,
        metavar="TIME",
        help="Longest time for one operation before it counts as a hang, or for one step sequence. [default: 20s "
        "natively, else 120s; sequences 120s]",
    ),
]

CHECKS_HELP = (
    "What the native executor watches in addition to the bytes, comma-separated: memory (accesses outside what may be "
    "touched), undefined (uninitialised numbers that decide something), races, identical-stores (races that store "
    "one value); all (the first three); none"
)

ReplayChecksOption = Annotated[
    Any, option("--checks", parser=parse_checks, help=f"{CHECKS_HELP}. [default: what the file says]")
]

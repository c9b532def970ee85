"""Options that several commands share, and the parsers of their texts, which the command-line library calls."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
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


def parse_path(text: str | Path) -> Path:
    """A file or folder to write. An empty text would be the current folder. Raises typer.BadParameter."""
    if text == "":
        raise typer.BadParameter("it is empty: name a file or folder")
    return Path(text)


def parse_seconds(text: str) -> float:
    """The seconds in `90`, `60s`, `5m` or `2h`. Raises typer.BadParameter."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", str(text).strip())
    if not match or not 0 < float(match[1]) < math.inf:
        raise typer.BadParameter(f"{text!r} is not a duration: write 60s, 5m or 2h")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def parse_size(text: str) -> int:
    """The bytes in `2GB`, `500M` (of powers of ten) or `2GiB` (of powers of two). Raises typer.BadParameter."""
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,12})?)\s*([KMGT])(i?)B?", str(text).strip(), re.IGNORECASE)
    size = (
        0
        if match is None
        else int(float(match[1]) * (1024 if match[3] else 1000) ** ("KMGT".index(match[2].upper()) + 1))
    )
    if not size:
        raise typer.BadParameter(f"{text!r} is not a size: write 2GB, 500MB or 1.5GiB")
    return size


def parse_memory(text: str) -> int:
    """The bytes that a worker may take. Raises typer.BadParameter, also where nothing says how many it takes."""
    from harness.worker.memory import resident_bytes

    size = parse_size(text)
    if not resident_bytes(os.getpid()):
        raise typer.BadParameter("this system does not say how much memory a process takes: it needs /proc")
    return size


def split(text: str) -> list[str]:
    """The names of a comma-separated list, each once."""
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def require_alone(names: Sequence[str], *words: str) -> None:
    """Raise typer.BadParameter if a word that represents a whole list is part of one."""
    for word in words:
        if word in names and len(names) > 1:
            raise typer.BadParameter(f"{word!r} must be alone: it means a whole list, not one of several names")


def choice(kind: str, known: Iterable[Value], *, text_of: Callable[[Value], str] = str) -> Callable[[str], Value]:
    """A parser of one of some known words."""
    words = {text_of(value): value for value in known}

    def parse(text: str) -> Value:
        if text not in words:
            raise typer.BadParameter(unknown(kind, [text], words))
        return words[text]

    return parse


def choices(kind: str, text: str, known: Iterable[str], *whole: str) -> tuple[str, ...]:
    """The names of a comma-separated list, each once. `whole` are words that represent a list, to be interpreted by the
    caller. Raises typer.BadParameter for unknown names, or if there is no name."""
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
        raise typer.BadParameter("undefined needs memory: bytes are tracked only inside the memory that may be touched")
    if "identical-stores" in names and "races" not in names:
        raise typer.BadParameter("identical-stores needs races")
    return tuple(check for check in CHECKS if check in names)


def wait_ready(worker: WorkerProcess) -> None:
    """Wait for a worker to be ready, and report occasionally that it still loads. Raises as `WorkerProcess.loading`."""
    for line in worker.loading():
        announce(line)


def target_or_default(name: str | None) -> str:
    """The requested target, or the installed vllm, or our own kernels if there is none."""
    from harness.kernels.targets.base import UnknownTarget
    from harness.kernels.targets.registry import parse

    if name is not None:
        return name
    try:
        return parse("vllm").text
    except UnknownTarget:
        return "builtin"


def require_base(base: str | None, targets: Sequence[str]) -> None:
    """Raise typer.BadParameter if `base` is given and is no known release, or if no target takes one."""
    from harness.kernels.targets.vllm.base_release import takes_base
    from harness.kernels.targets.vllm.known_releases import RELEASES

    if base is None:
        return
    if base not in RELEASES:
        raise typer.BadParameter(unknown("release", [base], RELEASES), param_hint="--base")
    if not any(takes_base(target.partition("+")[0]) for target in targets):
        wrong = " or ".join(targets)
        raise typer.BadParameter(
            f"only path:DIR and the installed vllm are made from another release, not {wrong}", param_hint="--base"
        )


def base_for(base: str | None, target: str) -> str | None:
    """The base release that the user gives to a target, one of several of which not all take one."""
    from harness.kernels.targets.vllm.base_release import takes_base

    return base if takes_base(target.partition("+")[0]) else None


def executor_or_default(name: str | None) -> str:
    """The requested executor, or the fastest one that this machine has. Raises UnavailableExecutor."""
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
        "other, such as path:DIR, must be given.",
    ),
]
BaseOption = Annotated[
    str | None,
    typer.Option(
        "--base",
        metavar="X.Y.Z",
        help="The release that a checkout or the installed vllm was made from. [default: the nearest one by content]",
    ),
]
RecordedExecutorOption = Annotated[
    str | None,
    typer.Option(
        "--executor",
        "-e",
        help="How kernels run: cuda, native or interpreter. Default: as for the file, if this machine can.",
    ),
]
ExecutorOption = Annotated[
    str | None,
    typer.Option("--executor", "-e", help="How kernels run: cuda, native or interpreter. Default: the fastest here."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, and nothing else.")]
CaseLimitOption = Annotated[
    float | None,
    option(
        "--case-limit",
        parser=parse_seconds,
        metavar="TIME",
        help="Maximum time for one operation, or one step sequence, before it counts as a hang. [default: 20s "
        "natively, else 120s; sequences 120s]",
    ),
]

MemoryLimitOption = Annotated[
    int | None,
    option(
        "--memory-limit",
        parser=parse_memory,
        metavar="SIZE",
        help="Maximum resident size of each worker, such as 4GB. What takes more is ended, and is a finding if it "
        "does so again in a new process. [default: none]",
    ),
]

CHECKS_HELP = (
    "What the native executor watches in addition to the bytes, comma-separated: memory (out-of-bounds accesses), "
    "undefined (uninitialised values that decide something), races, identical-stores (races that store the same "
    "value); all (the first three); none"
)

ReplayChecksOption = Annotated[
    Any, option("--checks", parser=parse_checks, help=f"{CHECKS_HELP}. [default: what the file says]")
]
